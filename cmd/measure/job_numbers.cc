#include "cmd/measure/job_numbers.h"

#include "runtime/communicator/members.h"

namespace collctl::cmd {

using runtime::in_numbers_of;

void in_job_numbers(const std::vector<int>& members, BenchRow& row) {
  for (Timing* timing : {&row.out_of_place, &row.in_place})
    timing->slowest_rank = in_numbers_of(members, timing->slowest_rank);
}

void in_job_numbers(const std::vector<int>& members, DataFault& fault) {
  fault.message = in_numbers_of(members, fault.message);
  fault.rank = in_numbers_of(members, fault.rank);
  fault.peer = in_numbers_of(members, fault.peer);
  for (DataFault::Hop& hop : fault.hops)
    hop = {in_numbers_of(members, hop.from), in_numbers_of(members, hop.to)};
}

void in_job_numbers(const std::vector<int>& members, BenchClosing& closing) {
  for (ThrottledGpu& gpu : closing.throttled) gpu.rank = in_numbers_of(members, gpu.rank);
}

}  // namespace collctl::cmd
