// The suites of a check, one after another, until all have run or a signal comes. Threads: one.
#pragma once
#include <csignal>
#include <iterator>

#include "cmd/check/check.h"

namespace collctl::cmd {

// Signals that come between two jobs; while one runs they are the job's (cmd/job/interrupt.h), and
// the handler is back afterwards.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

 private:
  static constexpr int kNumbers[] = {SIGINT, SIGTERM, SIGHUP};
  struct sigaction before_[std::size(kNumbers)] = {};
};

// Whether a signal has ended the check.
bool take_stop(CheckRun& run);
// Every suite that is asked for, one after another.
CheckReport run_suites(CheckRun& run, Progress& progress);

}  // namespace collctl::cmd
