// A machine whose GPUs do not all reach each other without the network is split into parts, each of
// which is a node of the cluster by itself. Used before the search. Pure; threads: any.
#pragma once
#include <vector>

#include "topology/graph/decide.h"

namespace collctl::topology {

// The groups of GPUs that reach each other by P2P or shared memory, directly or through others;
// one when all do. In the graph's order. `paths` of base_paths.
std::vector<std::vector<int>> gpu_groups(const Graph& graph, const Paths& paths,
                                         const Rules& rules);

// The same machine with these GPUs only, and with the network devices that one of them reaches. The
// nodes stay, so that their indexes keep their meaning; paths must be made again.
Graph part_of(const Graph& graph, const Paths& paths, const std::vector<int>& gpus);

}  // namespace collctl::topology
