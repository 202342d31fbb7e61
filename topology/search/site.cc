#include "topology/search/site.h"

#include <algorithm>
#include <tuple>

namespace collctl::topology {
namespace {

constexpr size_t kMaxRanked = 4096;  // lists kept: of no real machine more are needed

double pci_gbps(const Graph& graph, int gpu) {
  for (const GraphLink& link : graph.nodes[size_t(gpu)].links)
    if (link.kind == LinkKind::pci) return link.gbps;
  return 0;
}

}  // namespace

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
  for (const int net : nets_) {
    std::vector<int>& near = near_[net] = nearest_ends(paths, net, gpus_);
    const auto own = std::find(near.begin(), near.end(), locality_.gpu(net));
    if (own != near.end()) std::rotate(near.begin(), own, own + 1);
  }
  fill_steps();
}

void SearchSite::fill_steps() {
  std::vector<int> ends = gpus_;
  ends.insert(ends.end(), nets_.begin(), nets_.end());
  ends_ = ends.size();
  row_.assign(graph_.nodes.size(), -1);
  for (size_t i = 0; i < ends_; ++i) row_[size_t(ends[i])] = int(i);
  for (const int from : ends)
    for (const int to : ends) {
      const Path& path = paths_.at(from, to);
      steps_.push_back({path.type, std::max(path.type, paths_.at(to, from).type), path.hops});
    }
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

// Bandwidths count in whole GB/s here, as in NCCL: GPUs that differ by less are alike.
const std::vector<SearchSite::NextGpu>& SearchSite::ranked(int gpu, int net) const {
  if (ranked_.size() > kMaxRanked) ranked_.clear();
  const auto [found, fresh] = ranked_.try_emplace({gpu, net});
  if (!fresh) return found->second;
  // The least comes first: bandwidth to the network, PCI bandwidth, links to the network, bandwidth
  // and links inside, then index behind this one.
  using Key = std::tuple<int, int, int, int, int, int>;
  std::vector<std::pair<Key, NextGpu>> keys;
  const int count = int(gpus_.size()), self = index_of(gpu);
  for (int i = 1; i < count; ++i) {
    const int index = (self + i) % count, other = gpus_[size_t(index)];
    const Path& path = paths_.at(gpu, other);
    if (path.type >= PathType::net) continue;
    const std::pair inside(int(path.gbps), path.hops);
    Key key(0, 0, 0, -inside.first, inside.second, i);
    if (net >= 0) {
      const Path& to_net = paths_.at(net, other);
      std::get<0>(key) = -int(to_net.gbps);
      std::get<1>(key) = -int(pci_gbps(graph_, other));
      std::get<2>(key) = to_net.hops;
    }
    keys.push_back({key, {other, index, inside}});
  }
  std::sort(keys.begin(), keys.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [key, next] : keys) found->second.push_back(next);
  return found->second;
}

bool SearchSite::is_same_port(int net_a, int net_b) const {
  const Node &a = graph_.nodes[size_t(net_a)], &b = graph_.nodes[size_t(net_b)];
  return net_a == net_b || (a.guid != 0 && a.guid == b.guid && a.port == b.port);
}

}  // namespace collctl::topology
