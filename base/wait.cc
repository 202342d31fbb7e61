#include "base/wait.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace collctl::base {
namespace {

// When the deadline passes on the kernel's clock, if a test's own clock goes as fast as that.
timespec machine_time(Deadline deadline) {
  const int64_t at =
      other_clock == nullptr ? deadline.at() : machine_ns() + deadline.remaining_ns();
  return {.tv_sec = at / 1'000'000'000, .tv_nsec = at % 1'000'000'000};
}

}  // namespace

Result<int> poll_fds(std::span<pollfd> fds, Deadline deadline) {
  while (true) {
    const int ready = test_wait != nullptr
                          ? test_wait(fds, deadline)
                          : ::poll(fds.data(), nfds_t(fds.size()), deadline.poll_ms());
    if (ready > 0) return ready;
    if (ready < 0 && errno != EINTR) return errno_error(ErrorCode::defect, "poll", errno);
    if (deadline.passed()) return 0;
  }
}

void sleep_until(Deadline deadline) {
  if (test_wait != nullptr) {
    while (!deadline.passed()) test_wait({}, deadline);
    return;
  }
  do {
    // A test's clock may go slower than the machine's: what is left is looked at again.
    const timespec t = machine_time(deadline);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, nullptr) == EINTR) {
    }
  } while (!deadline.passed());
}

void yield_thread() {
  sched_yield();
}

void futex_wait(uint32_t* word, uint32_t expected, Deadline deadline) {
  const timespec t = machine_time(deadline);
  // FUTEX_WAIT_BITSET takes an absolute monotonic time. Spurious returns are fine: callers look
  // again.
  syscall(SYS_futex, word, FUTEX_WAIT_BITSET, expected, &t, nullptr, FUTEX_BITSET_MATCH_ANY);
}

void futex_wake(uint32_t* word, int how_many) {
  syscall(SYS_futex, word, FUTEX_WAKE, how_many, nullptr, nullptr, 0);
}

}  // namespace collctl::base
