// One run of a plan: the real job's loop over simulated hosts, to its end and a little longer.
// Threads: one.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "cmd/job/job.h"
#include "tests/sim/plan.h"

namespace collctl::sim {

// A process that is stopped for good is continued so long after the job's end.
inline constexpr double kContinued = 20;

struct Ran {
  std::optional<cmd::JobOutcome> outcome;  // none: the launcher was killed, or never ended
  double ended_s = -1;                     // its outcome, from the job's start
  double gone_s = -1;                      // the last agent and rank
  std::vector<int> happened;               // faults that came before the end, by their place
  std::vector<cmd::Shrunk> shrunk;
  std::vector<std::string> answers;  // to who asked (Plan has no such faults; cases do)
  std::vector<std::string> phases;   // by rank, the last
  int agents_left = 0, ranks_left = 0, records = 0;
  bool spins = false;
  uint64_t hash = 0, turns = 0;
  std::string trace;
  double virtual_s = 0;
};

struct RunOptions {
  bool trace = false;
  std::vector<double> ask_at_s = {};  // somebody asks the job what it does
};
Ran run_plan(const Plan& plan, const RunOptions& options = {});

}  // namespace collctl::sim
