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

struct RankClosing {  // what one rank says
  static constexpr const char* kRecord = "end of a rank";
  base::HostLoad before = {}, after = {};  // of its host, around the rows
  std::string clocks = {};                 // what throttled its GPU during the run; empty: nothing
  std::string bus_id = {};                 // of its GPU
  std::optional<StartCost> own_cost = {}, other_cost = {};
  std::optional<RankWaits> waits = {};  // where somebody asked; the same on all ranks
};
// What others than `ranks` ranks, which took `ranks_s` of processor time, had of their host between
// two readings, where it was so much that the figures are not the machine's own; else empty.
std::string busy_reason(const base::HostLoad& before, const base::HostLoad& after, int ranks,
                        double ranks_s);
// Rank 0, and who wants the rows, hands it to its sink. `all_alike`: what every rank knows already.
Status send_closing(RankClosing mine, BenchClosing all_alike, runtime::Communicator& communicator,
                    BenchOut& out, Deadline deadline);

}  // namespace collctl::cmd
