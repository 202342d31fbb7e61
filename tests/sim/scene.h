// The end that a scripted case expects of one job.
#pragma once
#include <string>
#include <vector>

#include "tests/sim/cases.h"
#include "tests/sim/job.h"

namespace collctl::sim {

struct Expected {
  int code = 0;
  std::vector<std::string> says = {};   // all of these, in the error or its hint
  std::vector<std::string> lacks = {};  // none of these
  std::vector<int> hosts = {};          // those that the sentence may name: all of them, no other
  int rank = -1;                        // at fault; -1: not asked
  double within_s = 0;                  // of the last fault; 0: not asked
};
// Runs it; the end is as expected, and nothing stays.
Ran expect_end(Findings& findings, Plan plan, uint64_t seed, const Expected& expected,
               const RunOptions& options = {});

// Hosts of two ranks whose operations take 30 s at most, working for 60 s: faults come first.
inline Plan working(int hosts, std::vector<Fault> faults) {
  Plan plan;
  plan.hosts = hosts;
  plan.timeout_s = 300;
  plan.works_s = 60;
  plan.faults = std::move(faults);
  return plan;
}

}  // namespace collctl::sim
