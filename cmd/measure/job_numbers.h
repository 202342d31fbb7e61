// Records of a communicator that numbers its ranks anew (of a group, or of those that others have
// left alone), in the job's numbers: people know ranks by these. Pure.
#pragma once
#include <vector>

#include "cmd/measure/bench.h"

namespace collctl::cmd {

// members[r]: the number in the job of its rank r.
void in_job_numbers(const std::vector<int>& members, BenchRow& row);
void in_job_numbers(const std::vector<int>& members, DataFault& fault);
void in_job_numbers(const std::vector<int>& members, BenchClosing& closing);

}  // namespace collctl::cmd
