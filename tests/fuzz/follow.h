// The steps that follow when a reader has taken a machine.
#pragma once
#include "topology/detect/inspect.h"
#include "topology/graph/decide.h"

namespace collctl::topology {

// Graph, paths and decisions of a machine with at most so many GPUs and network devices: beyond,
// the cost of the paths hides the reader's; their own bounds have tests.
inline void follow(const System& system, size_t most_endpoints) {
  (void)inspect(system, "input");
  const auto graph = make_graph(system, "input");
  if (!graph.ok() || graph->gpus.size() + graph->nets.size() > most_endpoints) return;
  (void)effective_paths(*graph, base_paths(*graph), {});
}

}  // namespace collctl::topology
