// What a measurement says at its end, gathered from all ranks. Collective; called by
// BenchRun on the rank's thread.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/host_limits.h"
#include "cmd/measure/bench.h"
#include "runtime/communicator/communicator.h"

namespace collctl::cmd {

struct ClosingFacts {  // one rank's
  std::string clocks;  // what throttled its GPU during the run; empty: nothing
  std::optional<StartCost> own_cost, other_cost;
  const WaitWatch* waits = nullptr;        // null: nobody asked; the same on all ranks
  base::HostLoad load_before, load_after;  // of its host, around the rows
};
// What others than `ranks` ranks, which took `ranks_s` of processor time, had of their host between
// two readings, where it was so much that the figures are not the machine's own; else empty.
std::string busy_reason(const base::HostLoad& before, const base::HostLoad& after, int ranks,
                        double ranks_s);
// Rank 0, and who wants the rows, hands it to its sink. `all_alike`: what every rank knows already.
Status send_closing(const ClosingFacts& mine, BenchClosing all_alike,
                    runtime::Communicator& communicator, BenchOut& out, Deadline deadline);

}  // namespace collctl::cmd
