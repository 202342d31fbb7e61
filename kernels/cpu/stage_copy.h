// Copies into memory that a peer has just read. A cached store there must first take the line
// out of the peer's cache. How long that takes is the machine's and the placement's: between two
// threads of one core it is free; between two cores of a Zen it moved 2.4 GB/s (1 MiB in 413 us),
// where streaming stores, which do not ask for the line, took 41 us and the peer read at 20 GB/s
// either way. So each channel measures how fast its cached copies are, and streams while they
// crawl. Used by the CPU backend on the thread that runs the work; values.
#pragma once
#include <cstdint>

namespace collctl::kernels {

// Shorter copies are never streamed: the store buffer hides the hand-over (measured: equal at 3
// KiB), and a streamed line costs the reader a trip to memory.
inline constexpr uint64_t kStreamedBytes = 4096;

// Any alignment; the ranges do not overlap. The copied data is ordered before the next release
// store of this thread, however it was stored.
void stage_copy(void* to, const void* from, uint64_t bytes, bool streams);

// One channel's record of how fast its long copies were.
class StagePace {
 public:
  // How to store the next long copy and what belongs to it.
  bool streams() const { return streamed_left_ > 0; }
  // Copies as streams() rules, and learns from it.
  void copy(void* to, const void* from, uint64_t bytes);
  // Notes the time of a cached long copy.
  void took(uint64_t bytes, int64_t ns);

 private:
  uint32_t streamed_left_ = 0;  // long copies until cached ones are tried again
  uint32_t tried_ = 0;
  double best_rate_ = 0;  // bytes a nanosecond, of those tried
};

}  // namespace collctl::kernels
