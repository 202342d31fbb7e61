// The alternatives that `plan` shows for GPU ranks beside the choice.
#include "runtime/plan/candidates.h"
#include "runtime/plan/planner.h"

namespace collctl::runtime {

using kernels::Protocol;

std::vector<WeighedChoice> weigh_on_gpus(const Operation& operation, const CommShape& shape,
                                         const Choices& choices) {
  std::vector<WeighedChoice> ways;
  for (const kernels::AlgorithmRow& row : kernels::algorithms()) {
    if (!choices.allows(row.id) || !serves(row, detail::executed(operation.collective))) continue;
    for (int p = 0; p < kernels::kProtocolCount; ++p) {
      if (!choices.allows(Protocol(p))) continue;
      Choices one = choices;
      one.algorithms = 1u << int(row.id);
      one.protocols = 1u << p;
      WeighedChoice way;
      way.algorithm = row.id;
      way.protocol = Protocol(p);
      for (const detail::PlanCandidate& found : detail::gpu_candidates(operation, shape, one)) {
        way.channels = int(detail::cut_parts(operation.count, found.channels).size());
        way.threads = found.threads;
        way.us = found.time.us;
        way.limited_by = found.time.limited_by;
        ways.push_back(way);
      }
      detail::gpu_refusals(operation, shape, one, [&](const std::string& why) {
        way.unavailable = why;
        ways.push_back(way);
      });
    }
  }
  return ways;
}

}  // namespace collctl::runtime
