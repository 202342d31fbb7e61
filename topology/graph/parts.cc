#include "topology/graph/parts.h"

#include <algorithm>

namespace collctl::topology {

std::vector<std::vector<int>> gpu_groups(const Graph& graph, const Paths& paths,
                                         const Rules& rules) {
  std::vector<std::vector<int>> groups;
  std::vector<bool> placed(graph.nodes.size(), false);
  for (const int first : graph.gpus) {
    if (placed[size_t(first)]) continue;
    std::vector<int> group{first};
    placed[size_t(first)] = true;
    for (size_t i = 0; i < group.size(); ++i)
      for (const int gpu : graph.gpus)
        if (!placed[size_t(gpu)] && gpu_way(graph, paths, rules, group[i], gpu).way != Way::net) {
          placed[size_t(gpu)] = true;
          group.push_back(gpu);
        }
    // Back into the graph's order.
    std::vector<int> ordered;
    for (const int gpu : graph.gpus)
      if (std::find(group.begin(), group.end(), gpu) != group.end()) ordered.push_back(gpu);
    groups.push_back(std::move(ordered));
  }
  return groups;
}

Graph part_of(const Graph& graph, const Paths& paths, const std::vector<int>& gpus) {
  Graph part = graph;
  part.gpus = gpus;
  std::erase_if(part.nets, [&](int net) {
    return std::all_of(gpus.begin(), gpus.end(), [&](int gpu) {
      return paths.at(gpu, net).type == PathType::dis && paths.at(net, gpu).type == PathType::dis;
    });
  });
  return part;
}

}  // namespace collctl::topology
