// The speed at which GPUs carry data through the memory of their host. Pure; threads: any.
#pragma once
#include "topology/graph/paths.h"

namespace collctl::topology {

// GB/s (1e9) that each GPU of the graph reads, and writes, where all do at the same time: each
// writes to the memory beside it and reads from all others' alike. The narrowest counts of every
// GPU's own PCI link, what GPUs share on the way, the links between NUMA nodes, and the memory's
// bandwidth where it is known. 0: fewer than two GPUs, several hosts, or one cannot reach another's
// memory.
double host_memory_gbps(const Graph& graph);

}  // namespace collctl::topology
