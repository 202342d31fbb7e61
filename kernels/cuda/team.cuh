// The threads of a block that run a backend together, and abort only together.
//
// A team's barriers are counted in phases, alike in all its threads. A thread whose wait ends
// without its value writes the report and marks the phase of the next barrier as failed; behind
// that barrier all threads see the mark and do nothing from then on. A thread that is already one
// phase further cannot be misread: its mark has a higher number.
//
// With a poster (protocol Simple) the last warp moves no data: it publishes what the others have
// moved, so that they need not wait for the fence. `first` is the barrier before data is moved, in
// which the poster only arrives; `second` the one behind, in which the movers only arrive.
//
// Waits end by their value, the abort word or the deadline.
#pragma once
#include "kernels/contract/fifo.h"
#include "kernels/contract/work.h"
#include "kernels/cuda/waits.cuh"

namespace collctl::kernels::cuda {

inline constexpr uint32_t kNoPhase = ~uint32_t(0);

// Shared memory of a team. The threads that look after fifos write this for the others, for this
// phase and the one before: a slow thread may still read that.
struct TeamScratch {
  const uint8_t* source[2][kMaxFanIn];
  uint8_t* target[2][kMaxFanOut];
  uint64_t source_step[2][kMaxFanIn];
  uint64_t target_step[2][kMaxFanOut];
  int32_t source_peer[2][kMaxFanIn];
  uint32_t target_fill[2][kMaxFanOut];           // bytes of the slot to write in any case
  const uint8_t* staged[kMaxDeviceWindowRanks];  // of a window: where the ranks' data begins
  uint32_t failed_phase;
  uint32_t slot_bytes;
};

// State that all teams of a block share.
struct BlockShared {
  Work work;
  TeamScratch scratch[3];
  uint32_t reported;
};

class Team {
 public:
  // `number` 0 is the whole block; 1 and 2 are its parts while it is split.
  __device__ Team(BlockShared& block, const DeviceShared& shared, int number, int index_in,
                  int count_in, bool has_poster)
      : scratch(block.scratch[number]),
        index(index_in),
        count(count_in),
        movers(has_poster ? count_in - kWarp : count_in),
        block_(block),
        shared_(shared),
        barrier_(1 + 2 * number),
        patience_(shared.timeout_ns + (number == 2 ? shared.timeout_ns / 2 : 0)),
        looks_(number == 2 ? 8 : 1) {}

  TeamScratch& scratch;
  const int index, count;
  const int movers;  // threads 0..movers-1 move data
  __device__ bool is_poster() const { return index >= movers; }
  __device__ const Work& work() const { return block_.work; }
  __device__ const ChannelLinks& links() const { return shared_.links[block_.work.channel]; }
  __device__ BlockShared& block() const { return block_; }
  __device__ const DeviceShared& shared() const { return shared_; }

  // The same for all threads that have passed the same barriers.
  __device__ bool failed() const { return failed_; }
  // Which of the two copies in the scratch is of this phase, and which one is filled for the next.
  __device__ uint32_t side() const { return phase_ & 1; }
  __device__ uint32_t next_side() const { return (phase_ + 1) & 1; }

  // All threads of the team.
  __device__ void sync() {
    barrier_sync(barrier_, count);
    agree(phase_ + 1);
  }
  // The barrier before data is moved: movers wait in it for all, the poster does not wait.
  __device__ void poster_arrives() {
    barrier_arrive(barrier_, count);
    ++phase_;
  }
  // The barrier behind: the poster waits in it, and learns there what the movers know already.
  __device__ void movers_arrive() { barrier_arrive(barrier_ + 1, count); }
  __device__ void poster_waits() {
    barrier_sync(barrier_ + 1, count);
    agree(phase_);
  }

  // From any thread: the next barrier, and all behind it, find the team failed.
  __device__ void fail() { atomicMin(&scratch.failed_phase, phase_ + 1); }

  // Waits until *counter > above; false when aborted.
  __device__ __noinline__ bool wait_above(const uint64_t* counter, uint64_t above, uint64_t& seen,
                                          const WaitFor& what) {
    if (seen > above) return true;
    int64_t start = 0;
#pragma unroll 1
    for (int polls = 1;; ++polls) {
      seen = load_acquire(counter);
      if (seen > above) break;
      if (polls % kPollsBetweenLooks != 0 && (start != 0 || !counts_waits())) continue;
      if (start == 0) {
        start = clock_ns();
      } else if (must_abort(what, seen, start, true)) {
        fail();
        return false;
      }
    }
    if (start != 0) waited(what, start);
    return true;
  }
  __device__ bool counts_waits() const {
    return shared_.waits != nullptr;
  }
  __device__ void waited(const WaitFor& what, int64_t start) const {
    if (counts_waits()) add_wait(shared_, what.peer, what.side, clock_ns() - start);
  }

  // Whether a wait since `start` must end: the abort word was raised, or it took too long.
  // The block's first to do so writes the report; one that `notes` says otherwise that it waits.
  // Out of line: rare, and called in many loops.
  __device__ __noinline__ bool must_abort(const WaitFor& what, uint64_t seen, int64_t start,
                                          bool notes) {
    const bool aborted = load_volatile(shared_.abort_word) != 0 && ++aborted_looks_ >= looks_;
    const bool late = clock_ns() - start > patience_;
    if (!aborted && !late) {
      if (notes) note_wait(shared_, reporter(), what, seen, start);
      return false;
    }
    report(aborted ? ReportCode::aborted : ReportCode::timeout, what, seen);
    if (!aborted) store_volatile(shared_.abort_word, 1);
    return true;
  }

  __device__ void report(ReportCode code, const WaitFor& what, uint64_t seen) const {
    write_report(shared_, block_.reported, reporter(), code, what, seen);
  }

 private:
  __device__ Reporter reporter() const {
    const Work& w = block_.work;
    return {w.op_count, w.rank, w.channel, w.protocol, w.algorithm, w.collective};
  }
  __device__ void agree(uint32_t phase) {
    phase_ = phase;
    failed_ |= *const_cast<const volatile uint32_t*>(&scratch.failed_phase) <= phase;
  }

  BlockShared& block_;
  const DeviceShared& shared_;
  const int barrier_;
  // The limit of a wait without progress, and how often it must find the abort word raised. Part 2
  // is the broadcast of a tree, which waits whenever any rank's reduction does: the channel has one
  // report, and the reduction, which looks meanwhile, knows whom it waits for.
  const int64_t patience_;
  const int looks_;
  int aborted_looks_ = 0;
  uint32_t phase_ = 0;
  bool failed_ = false;
};

}  // namespace collctl::kernels::cuda
