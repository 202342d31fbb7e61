// The paths of a report of `rails`, one by one. Pure. Threads: any.
#pragma once
#include <string>
#include <vector>

#include "cmd/rails/rails.h"

namespace collctl::cmd {

// The pairs as measured last, in the order of the pairs, then of the sender's NICs.
std::vector<RailAt> all_cells(const RailsReport& report);
const RailResult& cell_at(const RailsReport& report, const RailAt& at);
const RailsNic& nic_from(const RailsReport& report, const RailAt& at);
const RailsNic& nic_to(const RailsReport& report, const RailAt& at);
// "node01 mlx5_0:1 -> node02 mlx5_1:1"
std::string rail_text(const RailsReport& report, const RailAt& at);

}  // namespace collctl::cmd
