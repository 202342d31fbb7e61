// Before a test forks ranks that start threads of their own.
#pragma once
#include <filesystem>
#include <iterator>

#include "base/clock.h"
#include "base/wait.h"
#include "tests/rounds.h"

namespace collctl::runtime::testing {

// Threads of the test before may be about to end (a stream of the fake driver is one); the thread
// sanitizer lets a child of several threads start none. It has one of its own.
inline void wait_until_alone() {
  const Deadline deadline = Deadline::after_seconds(60);
  const auto threads = [] {
    std::error_code gone;  // a thread may end while it is counted
    const std::filesystem::directory_iterator all("/proc/self/task", gone);
    return gone ? 0 : std::distance(begin(all), end(all));
  };
  while (threads() > (test::kSanitized ? 2 : 1) && !deadline.passed())
    base::sleep_until(Deadline::after_ms(5));
}

}  // namespace collctl::runtime::testing
