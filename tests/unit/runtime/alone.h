// Before a test forks ranks that start threads of their own.
#pragma once
#include <filesystem>
#include <iterator>

#include "base/clock.h"
#include "base/wait.h"

namespace collctl::runtime::testing {

#if defined(__SANITIZE_THREAD__)
inline constexpr int kOwnThreads = 2;
#else
inline constexpr int kOwnThreads = 1;
#endif

// Threads of the test before may be about to end (a stream of the fake driver is one); the thread
// sanitizer lets a child of several threads start none. It has one of its own.
inline void wait_until_alone() {
  const Deadline deadline = Deadline::after_seconds(60);
  const auto threads = [] {
    std::error_code gone;  // a thread may end while it is counted
    const std::filesystem::directory_iterator all("/proc/self/task", gone);
    return gone ? 0 : std::distance(begin(all), end(all));
  };
  while (threads() > kOwnThreads && !deadline.passed()) base::sleep_until(Deadline::after_ms(5));
}

}  // namespace collctl::runtime::testing
