#include "topology/cluster/load.h"

#include <map>
#include <utility>

#include "base/format.h"

namespace collctl::topology {
namespace {

class Loads {
 public:
  Loads(const Graph& graph, const Paths& paths) : graph_(graph), paths_(paths) {}
  void add(int from, int to, double gbps) {
    const std::vector<int>& nodes = paths_.at(from, to).nodes;
    for (size_t i = 1; i < nodes.size(); ++i) used_[{nodes[i - 1], nodes[i]}] += gbps;
  }
  void both(int a, int b, double gbps) {
    add(a, b, gbps);
    add(b, a, gbps);
  }
  LinkLoad busiest() const {
    LinkLoad most;
    for (const auto& [ends, used] : used_) {
      const GraphLink* link = link_between(ends.first, ends.second);
      if (link == nullptr || link->gbps <= 0) continue;
      const double share = used / link->gbps, best = most.gbps > 0 ? most.used_gbps / most.gbps : 0;
      const bool equal = share > best * (1 - 1e-9) && share < best * (1 + 1e-9);
      if (equal ? link->gbps < most.gbps : share > best)
        most = {ends.first, ends.second, link->kind, link->gbps, used};
    }
    return most;
  }

 private:
  // Links stand fastest first, so this is the one that a path takes.
  const GraphLink* link_between(int from, int to) const {
    for (const GraphLink& link : graph_.nodes[size_t(from)].links)
      if (link.to == to) return &link;
    return nullptr;
  }
  const Graph& graph_;
  const Paths& paths_;
  std::map<std::pair<int, int>, double> used_;
};

void add_ring(const Graph& graph, const ChannelGraph& channels, const GraphChannel& channel,
              Loads& loads) {
  const auto is_net = [&](int node) { return graph.nodes[size_t(node)].kind == NodeKind::net; };
  for (const auto& [from, to] : channel_steps(Pattern::ring, channel))
    loads.add(from, to, is_net(from) || is_net(to) ? channels.bw_inter : channels.bw_intra);
}

// An all-reduce goes up and down each tree at half a channel's bandwidth, a quarter a tree. Over
// both trees a node has two parents' links and, inner in one of them, one lower and one upper
// child.
void add_tree(const ChannelGraph& channels, const GraphChannel& channel, Loads& loads) {
  const std::vector<int>& gpus = channel.gpus;
  for (size_t i = 1; i < gpus.size(); ++i) loads.both(gpus[i - 1], gpus[i], channels.bw_intra / 2);
  if (channel.net_in < 0) return;
  const double quarter = channels.bw_inter / 4;
  loads.both(gpus[0], channel.net_in, 2 * quarter);
  const bool second = gpus.size() > 1 && channel.net_out >= 0;
  const bool lower = second && channels.pattern != Pattern::tree;
  const bool upper = second && channels.pattern == Pattern::split_tree;
  for (const bool on_second : {lower, upper})
    loads.both(gpus[on_second ? 1 : 0], on_second ? channel.net_out : channel.net_in, quarter);
}

}  // namespace

LinkLoad busiest_link(const Graph& graph, const Paths& effective, const ChannelGraph& channels) {
  Loads loads(graph, effective);
  for (const GraphChannel& channel : channels.channels) {
    if (channel.gpus.empty()) continue;
    if (channels.pattern == Pattern::ring)
      add_ring(graph, channels, channel, loads);
    else
      add_tree(channels, channel, loads);
  }
  return loads.busiest();
}

std::string load_text(const Graph& graph, const LinkLoad& load) {
  if (load.from < 0) return {};
  return format("{} -> {} ({}, {:.4g} GB/s, {:.4g} used)", node_name(graph, load.from),
                node_name(graph, load.to), link_kind_name(load.kind), load.gbps, load.used_gbps);
}

}  // namespace collctl::topology
