#include <sys/wait.h>
#include <unistd.h>

#include "base/wait.h"
#include "tests/catch.h"
#include "tests/patient_clock.h"

namespace collctl::base {
namespace test_patient_clock {

using test::kStepNs;
using test::patient_ns;

constexpr int64_t kMs = 1'000'000;

TEST_CASE("patient clock: slower by as much as the machine is busy, and slow without a beat") {
  CHECK(patient_ns(kMs, 2, 0) == kMs);
  CHECK(patient_ns(kMs, 2, 2) == kMs);
  CHECK(patient_ns(kMs, 2, 4) == kMs / 2);
  CHECK(patient_ns(kMs, 1, 10) == kMs / 10);
  CHECK(patient_ns(kStepNs + 50 * kMs, 2, 1) == kStepNs + kMs);
  CHECK(patient_ns(kStepNs + 50 * kMs, 2, 4) == (kStepNs + kMs) / 2);
  CHECK(test::running_threads("0.20 0.18 0.12 7/80 11206\n") == 7);
  CHECK(test::running_threads("0.20 0.18") == 0);
  CHECK(test::running_threads("") == 0);
}

TEST_CASE("patient clock: never goes back, never overtakes the machine, and goes on in a child") {
  REQUIRE(other_clock != nullptr);
  const int64_t machine_start = machine_ns(), start = now_ns();
  const auto steady = [&] {
    int64_t last = start;
    for (const Deadline until = Deadline::after_ms(40); !until.passed();) {
      const int64_t now = now_ns();
      if (now < last || now - start > machine_ns() - machine_start) return 1;
      last = now;
    }
    return 0;
  };
  const pid_t child = ::fork();
  if (child == 0) ::_exit(steady());
  CHECK(steady() == 0);
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("patient clock: what sleeps or waits is back at its deadline, not before") {
  const Deadline deadline = Deadline::after_ms(20);
  sleep_until(deadline);  // time is what is tested: the clock itself
  CHECK(deadline.passed());
  const Deadline poll_deadline = Deadline::after_ms(20);
  CHECK(poll_fds({}, poll_deadline).value() == 0);
  CHECK(poll_deadline.passed());
  std::mutex mutex;
  std::condition_variable never;
  std::unique_lock lock(mutex);
  const Deadline wait_deadline = Deadline::after_ms(20);
  CHECK_FALSE(wait_for(never, lock, wait_deadline, [] { return false; }));
  CHECK(wait_deadline.passed());
}

}  // namespace test_patient_clock
}  // namespace collctl::base
