// Every blocking call is made here and takes a deadline. EINTR is handled; a passed
// deadline is a value. Threads: free functions, any thread.
#pragma once
#include <poll.h>
#include <sys/types.h>

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <span>

#include "base/clock.h"
#include "base/result.h"

namespace collctl::base {

// Tests that move time themselves (`other_clock`) wait here instead of in the kernel: until one of
// the descriptors is ready or that clock has come to the deadline. Returns like poll(2). Null: the
// kernel's waits, which look at the clock again when the kernel's own time is up.
inline int (*test_wait)(std::span<pollfd> fds, Deadline deadline) = nullptr;

// Waits until one of the descriptors is ready. Returns how many are; 0 when the deadline passed.
Result<int> poll_fds(std::span<pollfd> fds, Deadline deadline);
// Sleeps; returns at the deadline.
void sleep_until(Deadline deadline);
void yield_thread();
// Shared (cross-process) futex on a 32-bit word: sleeps while *word == expected, until woken or the
// deadline.
void futex_wait(uint32_t* word, uint32_t expected, Deadline deadline);
void futex_wake(uint32_t* word, int how_many);
// Waits on a condition variable until `ready()`; false when the deadline passed first.
template <class Ready>
bool wait_for(std::condition_variable& cv, std::unique_lock<std::mutex>& lock, Deadline deadline,
              Ready ready) {
  while (!ready()) {
    const int64_t left = deadline.remaining_ns();
    if (left <= 0) return false;
    // wait_until on the system clock is what TSan's runtime understands with g++ 12 (no clockwait
    // interceptor).
    cv.wait_until(lock, std::chrono::system_clock::now() + std::chrono::nanoseconds(left));
  }
  return true;
}

}  // namespace collctl::base
