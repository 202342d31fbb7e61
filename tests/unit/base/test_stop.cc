#include "base/stop.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "tests/catch.h"

namespace stop_tests {

using namespace collctl;
using base::machine_ns;

namespace {

struct Stopped {
  int64_t machine_ns = 0, own_ns = 0;  // from before the stop to after it
  bool goes_back = false;              // the clock, as another thread sees it
};

Stopped stop_once() {
  base::stop_with_clock();
  std::atomic<bool> over = false, goes_back = false;
  std::vector<std::thread> lookers;
  for (int i = 0; i < 2; ++i)
    lookers.emplace_back([&] {
      for (int64_t before = now_ns(); !over;) {
        const int64_t now = now_ns();
        if (now < before) goes_back = true;
        before = now;
      }
    });
  Stopped found;
  const int64_t machine = machine_ns(), own = now_ns();
  base::stop_this_process();
  found.own_ns = now_ns() - own;
  found.machine_ns = machine_ns() - machine;
  over = true;
  for (std::thread& looker : lookers) looker.join();
  found.goes_back = goes_back;
  return found;
}

}  // namespace

TEST_CASE("a process that stops itself has no time go by, and its clock never goes back") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const Stopped found = stop_once();
    const bool told = ::write(ends[1], &found, sizeof found) == ssize_t(sizeof found);
    ::_exit(told ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, WUNTRACED) == child);
  REQUIRE(WIFSTOPPED(status));
  const int64_t from = machine_ns();
  while (machine_ns() - from < 50'000'000) ::sched_yield();
  const int64_t stood_ns = machine_ns() - from;
  REQUIRE(::kill(child, SIGCONT) == 0);
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(status == 0);
  Stopped found;
  REQUIRE(::read(ends[0], &found, sizeof found) == ssize_t(sizeof found));
  CHECK(found.machine_ns - found.own_ns >= stood_ns);
  CHECK_FALSE(found.goes_back);
  ::close(ends[0]);
  ::close(ends[1]);
}

}  // namespace stop_tests
