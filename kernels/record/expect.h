// The contents of every rank's buffers before an operation, and those required after it, from the
// meaning of the collectives alone. Used by interpret.cc; values.
#pragma once
#include <span>
#include <vector>

#include "kernels/record/schedule.h"
#include "kernels/record/value.h"

namespace collctl::kernels {

std::vector<Memory> inputs_of(std::span<const Schedule> schedules, int nranks);
// The inputs, with the outputs written over them.
std::vector<Memory> outputs_of(std::span<const Schedule> schedules, int nranks);

}  // namespace collctl::kernels
