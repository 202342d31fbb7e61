// One node's description for the others, out of its graph and the search's results.
#include <algorithm>
#include <map>

#include "base/check.h"
#include "base/format.h"
#include "topology/cluster/cluster.h"
#include "topology/cluster/load.h"
#include "topology/graph/host_memory.h"

namespace collctl::topology {
namespace {

CpuMaker maker_of(const Node& cpu) {
  if (cpu.arch == "x86_64" && cpu.vendor == "GenuineIntel") return CpuMaker::intel;
  if (cpu.arch == "x86_64" && cpu.vendor == "AuthenticAMD") return CpuMaker::amd;
  return CpuMaker::other;
}

CpuMaker cpu_maker(const Graph& graph) {
  if (graph.cpus.empty()) return CpuMaker::other;
  const CpuMaker first = maker_of(graph.nodes[size_t(graph.cpus[0])]);
  for (const int cpu : graph.cpus)
    if (maker_of(graph.nodes[size_t(cpu)]) != first) return CpuMaker::mixed;
  return first;
}

std::string unknown_speed(const Graph& graph, const ChannelGraph& channels,
                          const std::string& host) {
  if (channels.fallback) return format("how the GPUs of {} reach each other", host);
  for (const GraphChannel& channel : channels.channels)
    for (const int net : {channel.net_in, channel.net_out})
      if (net >= 0 && graph.nodes[size_t(net)].net_assumed)
        return format("the speed of {} of {}", graph.nodes[size_t(net)].name, host);
  return {};
}

PatternFacts facts_of(const Graph& graph, const Paths& effective, const ChannelGraph& channels,
                      const std::string& host) {
  return {.channels = int(channels.channels.size()),
          .bw_intra = channels.bw_intra,
          .bw_inter = channels.bw_inter,
          .type_intra = channels.type_intra,
          .type_inter = channels.type_inter,
          .same_channels = channels.same_channels,
          .cross_nic = channels.cross_nic,
          .latency_inter_us = channels.latency_inter_us,
          .busiest_link = load_text(graph, busiest_link(graph, effective, channels)),
          .unknown = unknown_speed(graph, channels, host)};
}

// GPUs by rank, devices by their place among Graph::nets.
class Numbers {
 public:
  explicit Numbers(const Graph& graph) {
    const std::vector<int> gpus = gpus_by_rank(graph);
    for (size_t i = 0; i < gpus.size(); ++i) number_[gpus[i]] = int(i);
    for (size_t i = 0; i < graph.nets.size(); ++i) number_[graph.nets[i]] = int(i);
    number_[-1] = -1;
  }
  // By rank: the nodes of the graph.
  static std::vector<int> gpus_by_rank(const Graph& graph) {
    std::vector<int> gpus = graph.gpus;
    std::sort(gpus.begin(), gpus.end(), [&](int a, int b) {
      return graph.nodes[size_t(a)].rank < graph.nodes[size_t(b)].rank;
    });
    return gpus;
  }
  std::vector<NodeChannel> of(const ChannelGraph& channels) const {
    std::vector<NodeChannel> list;
    for (const GraphChannel& channel : channels.channels) {
      NodeChannel& made = list.emplace_back();
      for (const int gpu : channel.gpus) made.order.push_back(number(gpu));
      made.in = number(channel.net_in);
      made.out = number(channel.net_out);
    }
    return list;
  }

  int number(int node) const {
    const auto it = number_.find(node);
    COLL_CHECK_NOTE(it != number_.end(),
                    "a channel lists a GPU or network device that is not in its graph");
    return it->second;
  }

 private:
  std::map<int, int> number_;
};

// By rank: the devices with the best path to each GPU, none of them through another GPU.
std::vector<std::vector<int>> near_nets(const Graph& graph) {
  const Paths paths = base_paths(graph, {.through_gpus = false});
  std::vector<std::vector<int>> near;
  for (const int gpu : Numbers::gpus_by_rank(graph)) {
    std::vector<int>& best = near.emplace_back();
    const auto rank_of = [&](size_t net) {
      const Path& path = paths.at(gpu, graph.nets[net]);
      return std::pair(path.type, -path.gbps);
    };
    for (size_t net = 0; net < graph.nets.size(); ++net) {
      if (rank_of(net).first >= PathType::net) continue;
      if (!best.empty() && rank_of(net) < rank_of(size_t(best[0]))) best.clear();
      if (best.empty() || rank_of(net) == rank_of(size_t(best[0]))) best.push_back(int(net));
    }
    if (best.empty()) continue;
    const auto sharers = std::count_if(near.begin(), near.end() - 1, [&](std::vector<int> other) {
      std::sort(other.begin(), other.end());
      return other == best;
    });
    std::rotate(best.begin(), best.begin() + sharers % ptrdiff_t(best.size()), best.end());
  }
  return near;
}

// The last GPU of the path is the one that is next to the device.
int relay_on(const Graph& graph, const Path& path) {
  if (path.type != PathType::pxn) return -1;
  for (size_t i = path.nodes.size(); i-- > 1;)
    if (std::count(graph.gpus.begin(), graph.gpus.end(), path.nodes[i]) > 0) return path.nodes[i];
  return -1;
}

// By device: the ranks of the GPUs that no other is nearer than.
std::vector<std::vector<int>> near_ranks(const Graph& graph) {
  const Paths paths = base_paths(graph, {.through_gpus = false});
  const std::vector<int> gpus = Numbers::gpus_by_rank(graph);
  std::vector<std::vector<int>> near;
  for (const int net : graph.nets) {
    std::vector<int>& best = near.emplace_back();
    const auto far = [&](int rank) { return paths.at(gpus[size_t(rank)], net).type; };
    for (int rank = 0; rank < int(gpus.size()); ++rank) {
      if (far(rank) >= PathType::net) continue;
      if (!best.empty() && far(rank) < far(best[0])) best.clear();
      if (best.empty() || far(rank) == far(best[0])) best.push_back(rank);
    }
  }
  return near;
}

}  // namespace

ClusterNode describe_node(const Graph& graph, const Paths& effective, const NodeGraphs& graphs,
                          const Rules& rules, const std::string& name) {
  ClusterNode node;
  node.name = name;
  node.ranks = int(graph.gpus.size());
  node.cpu = cpu_maker(graph);
  node.tree_pattern = graphs.tree.pattern;
  if (!graph.gpus.empty()) node.gpu_model = graph.nodes[size_t(graph.gpus[0])].model;
  for (const int at : graph.gpus) {
    const Node& gpu = graph.nodes[size_t(at)];
    node.amd_gpus = node.amd_gpus || gpu.amd;
    node.min_sm = at == graph.gpus[0] ? gpu.sm : std::min(node.min_sm, gpu.sm);
    node.max_sm = std::max(node.max_sm, gpu.sm);
  }
  node.host_gbps = host_memory_gbps(graph);
  node.ring = facts_of(graph, effective, graphs.ring, name);
  node.tree = facts_of(graph, effective, graphs.tree, name);
  const Numbers numbers(graph);
  node.ring_channels = numbers.of(graphs.ring);
  node.tree_channels = numbers.of(graphs.tree);
  node.collnet_channels = numbers.of(graphs.collnet);
  for (const int net : graph.nets)
    node.nets.push_back(node_name(graph, net) + " " + graph.nodes[size_t(net)].name);
  node.near = near_nets(graph);
  for (const int gpu : Numbers::gpus_by_rank(graph)) {
    std::vector<int>& relays = node.relay.emplace_back();
    for (const int net : graph.nets)
      relays.push_back(numbers.number(relay_on(graph, effective.at(gpu, net))));
  }
  node.rail_senders = rail_senders(graph, effective, rules, Numbers::gpus_by_rank(graph));
  for (std::vector<int>& of_rank : node.rail_senders)
    for (int& gpu : of_rank) gpu = numbers.number(gpu);
  node.pxn_asked = rules.p2p_pxn_asked;
  node.near_ranks = near_ranks(graph);
  return node;
}

}  // namespace collctl::topology
