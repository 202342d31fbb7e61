// A clock for tests that is as slow as the machine is busy, so that a deadline ends what does
// nothing and never what only waits for its turn.
//
// A small process beats every 2 ms. Until its next beat time passes at a pace of processors /
// threads that want to run (at most the machine's own pace), and after kStepNs without a beat, as
// when all of the machine stands still, at a fiftieth of that. So nothing can stop it for good: a
// deadline that is to pass does so, late.
//
// It goes on in forked children. Programs that are executed have the machine's clock.
#pragma once
#include <cstdint>

namespace collctl::test {

// Before any thread starts; prints why if this machine cannot have it: time is the machine's then.
// The process ends when all have ended that inherited the clock.
void install_patient_clock();

// The patient time of `machine_ns` since a beat at which `running` threads wanted `processors`.
constexpr int64_t kStepNs = 8'000'000;
constexpr int64_t patient_ns(int64_t machine_ns, int64_t processors, int64_t running) {
  const int64_t counted =
      machine_ns <= kStepNs ? machine_ns : kStepNs + (machine_ns - kStepNs) / 50;
  return running <= processors ? counted : counted * processors / running;
}
// From a line of /proc/loadavg ("0.20 0.18 0.12 RUNNING/..."); 0: it is not such a line.
int64_t running_threads(const char* loadavg);

}  // namespace collctl::test
