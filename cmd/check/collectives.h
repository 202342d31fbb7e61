// Which collectives a check runs at each level, and how large. Values.
#pragma once
#include <string>
#include <vector>

#include "cmd/check/check.h"
#include "cmd/measure/bench.h"

namespace collctl::cmd {

std::vector<kernels::Collective> check_collectives(CheckLevel level);
// Of a run on one host, as words of a command line; and how long it may take once it has started.
// `longer`: for what is measured again.
std::vector<std::string> node_sizes(CheckLevel level, bool longer = false);
double node_limit_s(CheckLevel level);
// The same of a run by one way, in all protocols and by all algorithms: short, its times say
// little.
std::vector<std::string> way_sizes(CheckLevel level);
BenchSpec cluster_spec(CheckLevel level, kernels::Collective collective);

}  // namespace collctl::cmd
