// Code common to the decisions on GPUs and on network devices. Used by decide*.cc only. Pure.
#pragma once
#include <string>

#include "topology/graph/decide.h"

namespace collctl::topology {

inline const Node& node(const Graph& graph, int at) {
  return graph.nodes[size_t(at)];
}

// A limit by path type in words, and which value of the knob would reverse the decision.
std::string level_text(PathType type, PathType level, const char* knob);

// From one end to another through a CPU: PHB at best.
Path through_cpu(const Paths& paths, int from, int cpu, int to);

}  // namespace collctl::topology
