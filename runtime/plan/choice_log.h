// The choices on GPU ranks, and on any with a tuner, for -v: one line for each size, all-reduce and
// the allowed choices. Called at the end of start-up, by one rank; all have the same result.
#pragma once
#include "runtime/plan/plan.h"
#include "runtime/request/choices.h"

namespace collctl::runtime {

void log_choices(const CommShape& shape, const Choices& choices);

}  // namespace collctl::runtime
