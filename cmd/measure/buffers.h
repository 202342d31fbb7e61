// The memory of a measurement: whether it fits, the two buffers of its rows, and with --window the
// windows around them. Used by BenchRun and the soak on the rank's thread; borrows the
// communicator.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "cmd/measure/bench.h"
#include "cmd/verify/guarded_buffer.h"
#include "cmd/verify/row.h"
#include "runtime/communicator/communicator.h"

namespace collctl::cmd {

// Whether the buffers of a host's CPU ranks fit before any is made: the kernel gives memory as it
// is touched, and kills the one that touches the last of it. Threads: any.
struct HostMemory {
  uint64_t ranks = 1, bytes = 0;  // of the host; 0 bytes: not known
  // Memory of the control group around this rank (container, job), and how many of those ranks are
  // in it; 0 bytes: no limit.
  uint64_t group_ranks = 1, group_bytes = 0;
  uint64_t share() const;  // of one rank; 0: not known
};
HostMemory host_memory(const runtime::Communicator& whole);
// `what`: "allreduce of 1 GiB"; `each`: bytes of a rank. Error: unavailable.
Status fits_in_memory(const std::string& what, uint64_t each, const HostMemory& memory);

// --window: buffers as windows, registered by all ranks together.
class BenchWindows {
 public:
  explicit BenchWindows(runtime::Communicator& communicator) : communicator_(communicator) {}
  ~BenchWindows();  // gives back, when that was not done
  BenchWindows(const BenchWindows&) = delete;
  BenchWindows& operator=(const BenchWindows&) = delete;

  // Each in a window of its own, with its guards, so that any part of it lies in the window.
  // Buffers for windows, reserved, equally many and large on all ranks. Errors name the rank.
  Status add(std::span<GuardedBuffer* const> buffers, Deadline deadline);
  // Waits for what was started on them.
  Status give_back(Deadline deadline);
  uint64_t bytes() const;  // registered

 private:
  runtime::Communicator& communicator_;
  std::vector<runtime::WindowPointer> windows_;
};

// This rank's place in a row.
Place place_of(const runtime::Communicator& communicator, const RowKey& key);
// Number of the whole's ranks on this rank's host.
int local_ranks(const runtime::Communicator& whole);

// Input and output of every row of a measurement.
class RowMemory {
 public:
  explicit RowMemory(runtime::Communicator& communicator)
      : communicator_(communicator), windows_(communicator) {}
  // For rows of up to `largest` bytes, as asked for; all ranks of a host, of whatever group of the
  // `whole`, together must fit into its memory. Errors: unavailable: they do not; of windows.
  Status reserve(const BenchSpec& spec, uint64_t largest, const runtime::Communicator& whole,
                 Deadline deadline);
  PlacedRow of(const RowKey& key, bool in_place);
  BenchWindows& windows() { return windows_; }

 private:
  runtime::Communicator& communicator_;
  std::shared_ptr<DeviceBlocks> blocks_;  // GPU ranks
  GuardedBuffer input_, output_;
  BenchWindows windows_;  // with --window: of the two
};

}  // namespace collctl::cmd
