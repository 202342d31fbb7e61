// What a measurement on GPU ranks says at its end, gathered from all ranks. Collective; called by
// BenchRun on the rank's thread.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "cmd/bench.h"
#include "runtime/communicator.h"

namespace collctl::cmd {

struct ClosingFacts {  // one rank's
  std::string clocks;  // what throttled its GPU during the run; empty: nothing
  std::optional<StartCost> own_cost, other_cost;
};
// Rank 0, and who wants the rows, hands it to its sink. `all_alike`: what every rank knows already.
Status send_closing(const ClosingFacts& mine, BenchClosing all_alike,
                    runtime::Communicator& communicator, BenchSink& sink, Deadline deadline);

}  // namespace collctl::cmd
