// The machine as the search sees it: orders of GPUs and network devices.
#include <algorithm>
#include <utility>

#include "topology/search_channels.h"

namespace collctl::topology {

SearchSite::SearchSite(const Graph& graph, const Paths& paths, bool network)
    : graph_(graph),
      paths_(paths),
      locality_(graph, paths),
      gpus_(graph.gpus),
      index_(graph.nodes.size(), -1) {
  if (network) nets_ = graph.nets;
  std::sort(gpus_.begin(), gpus_.end());
  std::sort(nets_.begin(), nets_.end());
  for (size_t i = 0; i < gpus_.size(); ++i) index_[size_t(gpus_[i])] = int(i);
  nvswitch_ = std::any_of(graph.nodes.begin(), graph.nodes.end(),
                          [](const Node& node) { return node.kind == NodeKind::nvs; });
}

double SearchSite::pci_gbps(int gpu) const {
  for (const GraphLink& link : graph_.nodes[size_t(gpu)].links)
    if (link.kind == LinkKind::pci) return link.gbps;
  return 0;
}

const std::vector<int>& SearchSite::nets_to_try(int gpu, PathType worst) const {
  const auto [found, fresh] = net_lists_.try_emplace({gpu, worst});
  std::vector<int>& nets = found->second;
  if (!fresh) return nets;
  const auto add = [&](int net) {
    if (std::find(nets.begin(), nets.end(), net) == nets.end()) nets.push_back(net);
  };
  const std::vector<int> asking = gpu < 0 ? gpus_ : std::vector<int>{gpu};
  for (const int each : asking)
    for (int channel = 0; channel < int(nets_.size()); ++channel) {
      const int net = locality_.net(each, channel);
      // Once round: from here on a GPU's choices repeat.
      if (net < 0 || (channel > 0 && net == locality_.net(each, 0))) break;
      add(net);
    }
  for (int type = 0; type <= int(worst); ++type)
    for (const int each : asking)
      for (const int net : nets_)
        if (paths_.at(each, net).type == PathType(type)) add(net);
  return nets;
}

std::vector<int> SearchSite::gpus_near(int net) const {
  std::vector<int> near = nearest_ends(paths_, net, gpus_);
  const auto own = std::find(near.begin(), near.end(), locality_.gpu(net));
  if (own != near.end()) std::rotate(near.begin(), own, own + 1);
  return near;
}

bool SearchSite::is_same_port(int net_a, int net_b) const {
  const Node &a = graph_.nodes[size_t(net_a)], &b = graph_.nodes[size_t(net_b)];
  return net_a == net_b || (a.guid != 0 && a.guid == b.guid && a.port == b.port);
}

}  // namespace collctl::topology
