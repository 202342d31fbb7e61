// Running Work on host threads: one call per channel, in the caller's thread; what needs a second
// worker (tree split) takes it from the pool. Called by the runtime's CPU executor. Threads: one
// call at a time per channel of a communicator; different channels and ranks run in parallel.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/wait_policy.h"
#include "kernels/contract/fifo.h"
#include "kernels/contract/report.h"
#include "kernels/contract/window.h"
#include "kernels/contract/work.h"
#include "kernels/cpu/stage_copy.h"
#include "kernels/cpu/wait_log.h"

namespace collctl::kernels {

// An injected fault, for tests (hidden knob FAULT).
enum class FaultKind : uint8_t { none, missing, doubled, corrupt, stall, exit };
struct Fault {
  FaultKind kind = FaultKind::none;
  int rank = -1;
  int channel = 0;
  uint64_t step =
      0;  // at this number of reducing or receiving slices of the operation (0 = the first)
};
// "missing:rank=1:channel=0:step=2"; empty text is no fault; anything else a usage error.
Result<Fault> parse_fault(const std::string& text);

// A few threads for the parts of a work that run side by side; started when first needed, joined by
// the destructor.
class HelperPool {
 public:
  HelperPool();
  ~HelperPool();
  // Runs `task` on a helper while the caller continues; wait() returns when it is done.
  class Ticket {
   public:
    void wait();
    struct Shared;
    std::shared_ptr<Shared> shared;
  };
  Ticket run(std::function<void()> task);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Data that a work has lent by a fifo is read when the fifo's head gets there.
struct LentUntil {
  const Fifo* fifo;
  uint64_t head;
};

struct CpuContext {
  uint32_t* abort_word = nullptr;          // nonzero: abort (read with acquire)
  int64_t op_timeout_ns = 30'000'000'000;  // without progress
  // How waits pass the time, then sleep on the fifo's eventcount; null: as where ranks share cores.
  base::WaitPolicy* waiting = nullptr;
  // Called in every wait loop when set: moves network links; returns true when it moved something.
  // `awaited`: what it waits to receive from; null: something else.
  bool (*assist)(void*, const Fifo* awaited) = nullptr;
  // Called instead of a futex sleep on proxied fifos when set: sleeps until a descriptor or
  // doorbell moves, at most until `until_ns`. Before any other sleep it is called with 0: another
  // thread must move the links meanwhile.
  void (*assist_sleep)(void*, int64_t until_ns) = nullptr;
  // Called when a work that noted where it wants slices has failed: once it returns nothing is
  // written there any more.
  void (*take_back)(void*) = nullptr;
  void* assist_argument = nullptr;
  HelperPool* helpers = nullptr;
  const FlatRange* flat = nullptr;  // of works whose buffers are shared (shared_block.h)
  WaitLog* waits = nullptr;         // shared by the channels of a rank; null: nothing is noted
  Fault fault;
  StagePace pace;
  std::vector<LentUntil> lent;   // of the work that runs
  bool placed = false;           // it has noted where it wants a slice
  std::vector<uint8_t> scratch;  // Work::scratch, as much as any work has needed yet
  Report report{};               // filled when run_work returns false
};

// True when done. False when aborted: context.report names who waited for whom (code timeout or
// aborted) or bad_data.
bool run_work(const Work& work, const ChannelLinks& links, CpuContext& context);

// Reduces `sources` arrays of n elements element by element in order into every destination. Narrow
// floats accumulate in float32 and are rounded once; `divisor` > 1 divides at the end (avg;
// integers truncate toward zero). Any alignment. Sources and destinations may be the same address,
// not otherwise overlap. SIMD level chosen at run time.
void reduce_arrays(DataType type, RedOp op, const void* const* sources, int source_count,
                   void* const* destinations, int destination_count, uint64_t n, uint32_t divisor);
// "scalar", "avx2", "avx512" or "neon": what this machine uses; tests can force one (false when the
// CPU lacks it).
const char* simd_level();
bool force_simd_level(const char* name);

}  // namespace collctl::kernels
