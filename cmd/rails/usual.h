// The speed that a path is held against: what paths between good NICs have, whatever the bad ones
// drag down. Pure.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "cmd/rails/rails.h"

namespace collctl::cmd {

// GB/s by the rate of a path's slower NIC (Gb/s), of the paths that carry anything, as
// cmd/judge/usual.h has it: three hosts of which one is bad both ways have four slow paths of six,
// whose median would be the slow speed. `rail_only`: paths between NICs of different names do not
// count.
std::map<double, double> usual_speeds(const RailsReport& report, bool rail_only);
// The same of the share of packets that were sent again, of all paths of which it is known; 0 where
// it is of none.
double usual_resent(const RailsReport& report, bool rail_only);

// The paths of a report of `rails`, one by one. Pure. Threads: any.

// The pairs as measured last, in the order of the pairs, then of the sender's NICs.
std::vector<RailAt> all_cells(const RailsReport& report);
const RailResult& cell_at(const RailsReport& report, const RailAt& at);
const RailsNic& nic_from(const RailsReport& report, const RailAt& at);
const RailsNic& nic_to(const RailsReport& report, const RailAt& at);
// "node01 mlx5_0:1 -> node02 mlx5_1:1"
std::string rail_text(const RailsReport& report, const RailAt& at);

}  // namespace collctl::cmd
