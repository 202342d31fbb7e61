#include "topology/graph/host_memory.h"

#include <algorithm>
#include <map>
#include <utility>

#include "topology/bandwidth.h"
#include "topology/graph/decide.h"

namespace collctl::topology {
namespace {

// How much crosses each link, one way, and goes in and out of each NUMA node's memory.
struct Carried {
  std::map<std::pair<int, int>, double> links;
  std::map<int, double> memory;
  bool connected = true;

  void add(const Path& path, int memory_of, double share) {
    connected = connected && !path.nodes.empty();
    for (size_t i = 1; i < path.nodes.size(); ++i)
      links[{path.nodes[i - 1], path.nodes[i]}] += share;
    memory[memory_of] += share;
  }
};

double link_gbps(const Graph& graph, int from, int to) {
  double gbps = 0;
  for (const GraphLink& link : graph.nodes[size_t(from)].links)
    if (link.to == to) gbps = std::max(gbps, link.gbps);
  return gbps;
}

}  // namespace

double host_memory_gbps(const Graph& graph) {
  const size_t count = graph.gpus.size();
  if (count < 2 || graph.hosts > 1) return 0;
  const Paths paths = base_paths(graph, {.through_gpus = false});
  Carried loads;
  for (const int gpu : graph.gpus) {
    const int beside = graph.nodes[size_t(gpu)].cpu;
    loads.add(paths.at(gpu, beside), beside, 1);
    for (const int peer : graph.gpus) {
      const int there = graph.nodes[size_t(peer)].cpu;
      if (peer != gpu) loads.add(paths.at(there, gpu), there, 1 / double(count - 1));
    }
  }
  if (!loads.connected) return 0;
  double gbps = kLocalGBps;
  for (const auto& [link, load] : loads.links)
    gbps = std::min(gbps, link_gbps(graph, link.first, link.second) / load);
  for (const auto& [at, load] : loads.memory) {
    const Node& cpu = graph.nodes[size_t(at)];
    const double most = memory_bandwidth(cpu.vendor, cpu.family, cpu.cpu_model);
    if (most > 0) gbps = std::min(gbps, most / load);
  }
  return gbps;
}

}  // namespace collctl::topology
