// The promises of a run: who may be named for what happened, by when, with which code, and that
// nothing stays. Pure.
#pragma once
#include <string>
#include <vector>

#include "tests/sim/job.h"

namespace collctl::sim {

// Each promise that was broken; empty: none.
std::vector<std::string> judged(const Plan& plan, const Ran& ran);

}  // namespace collctl::sim
