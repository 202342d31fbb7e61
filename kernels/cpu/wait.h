// One wait that did not end at the first look: spin, then yield, then sleep on the eventcount, with
// the abort word and the timeout in view all the time. Used by the CPU backend's blocks, on the
// thread that runs the work; lives on the stack of that wait.
//
//   PatientWait wait(work, point);
//   while (!ready()) if (!wait.turn()) return false;   // aborted, the report is written
//
// A sleeper announces itself by exchanging 1 into its word and looks once more before it sleeps;
// the publisher publishes before it looks at the word (wake_sleeper). Both are read-modify-write
// on one word, so one of the two sees the other.
#pragma once
#include "kernels/cpu/cpu_work.h"

namespace collctl::kernels {

// Tells the core that its thread spins: another thread of the core may go ahead.
inline void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Asks for a cache line that will be written soon.
inline void prefetch_to_write(const void* line) {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(line)));
#else
  __builtin_prefetch(line, 1);
#endif
}

struct WaitPoint {
  uint32_t* sleeper;  // the eventcount word to sleep on; null where no waker rings
  int peer;
  WaitSide side;
  uint64_t step;         // this end's step
  const uint64_t* seen;  // what the last look saw, for the report
  uint64_t wanted;
  bool proxied = false;           // the host moves this link
  const Fifo* awaited = nullptr;  // what it waits to receive from
  bool shared = false;  // several ranks sleep on the word: only the one who rings takes it back
};
// A wait at one end of a fifo.
inline WaitPoint fifo_wait(const Fifo& fifo, WaitSide side, uint64_t step, const uint64_t* seen,
                           uint64_t wanted) {
  return {.sleeper = side == WaitSide::recv ? fifo.consumer_sleeps : fifo.producer_sleeps,
          .peer = fifo.peer,
          .side = side,
          .step = step,
          .seen = seen,
          .wanted = wanted,
          .proxied = (fifo.flags & (kFifoProxyReads | kFifoProxyWrites)) != 0,
          .awaited = side == WaitSide::recv ? &fifo : nullptr};
}

class PatientWait {
 public:
  PatientWait(CpuWork& work, const WaitPoint& point);
  ~PatientWait();
  PatientWait(const PatientWait&) = delete;
  PatientWait& operator=(const PatientWait&) = delete;
  // Passes a little time; call it after each look that found nothing. False: aborted or timed out.
  bool turn();

 private:
  using Next = base::Patience::Next;
  bool look_around();
  bool announce();
  void rest();
  Report reported(ReportCode code) const;
  void count_look();
  bool proxied() const { return point_.proxied; }

  CpuWork& work_;
  const WaitPoint point_;
  uint32_t* const sleeper_;
  base::Patience patience_;
  Next next_;
  uint32_t turns_ = 0;
  int64_t start_ns_ = 0;  // of the wait, or of the last progress that assist made
  int64_t now_ns_ = 0;
  bool armed_ = false, announced_ = false;
  int noted_ = -1;  // the place in the log
  // With sums: the last look, and what has passed.
  int64_t looked_ns_ = 0, waited_ns_ = 0, away_ns_ = 0;
};

void ring_bell(uint32_t* sleeper, int bell_fd);

// After a counter (or LL lines) moved: wakes the other side if it sleeps. `sleeper` is its word.
inline void wake_sleeper(uint32_t* sleeper, int bell_fd) {
  if (sleeper == nullptr) return;
  std::atomic_ref<uint32_t> word(*sleeper);
  if (word.fetch_or(0, std::memory_order_acq_rel) != 0) {
    word.exchange(0, std::memory_order_acq_rel);
    ring_bell(sleeper, bell_fd);
  }
}

}  // namespace collctl::kernels
