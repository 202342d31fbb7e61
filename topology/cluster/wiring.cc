#include "topology/cluster/wiring.h"

#include <algorithm>

#include "topology/cluster/double_tree.h"

namespace collctl::topology {

CollNetChain collnet_chain(const Cluster& cluster, int channel, int node) {
  const std::vector<NodeChannel>& found = cluster.node(node).collnet_channels;
  const int first = cluster.first_rank[size_t(node)];
  if (found.empty()) {
    const TreeChain tree = tree_chain(cluster, channel, node);
    CollNetChain chain{tree.ranks, tree.parent_net};
    const auto& near = cluster.node(node).near_ranks;
    if (chain.net < 0 || size_t(chain.net) >= near.size()) return chain;
    const auto head = std::find_if(chain.ranks.begin(), chain.ranks.end(), [&](int rank) {
      const std::vector<int>& nearest = near[size_t(chain.net)];
      return std::find(nearest.begin(), nearest.end(), rank - first) != nearest.end();
    });
    if (head != chain.ranks.end()) std::rotate(chain.ranks.begin(), head, chain.ranks.end());
    return chain;
  }
  const NodeChannel& own = found[size_t(channel) % found.size()];
  CollNetChain chain{own.order, own.in};
  for (int& rank : chain.ranks) rank += first;
  return chain;
}

RankWiring wiring_of(const Cluster& cluster, int rank) {
  RankWiring wiring;
  const int node = cluster.node_of(rank);
  const auto place = size_t(rank - cluster.first_rank[size_t(node)]);
  if (place < cluster.node(node).near.size()) wiring.near = cluster.node(node).near[place];
  for (int c = 0; c < cluster.channels(); ++c) {
    RankWiring::Channel& channel = wiring.channels.emplace_back();
    const NetUse use = net_use(cluster, c, node);
    const std::vector<int>& ring = cluster.rings[size_t(c)];
    const size_t at = size_t(std::find(ring.begin(), ring.end(), rank) - ring.begin());
    const int next = ring[(at + 1) % ring.size()];
    const int previous = ring[(at + ring.size() - 1) % ring.size()];
    if (cluster.node_of(next) != node) channel.ring_out = use.ring_out;
    if (cluster.node_of(previous) != node) channel.ring_in = use.ring_in;
    if (const CollNetChain chain = collnet_chain(cluster, c, node);
        cluster.nodes() > 1 && chain.ranks[0] == rank)
      channel.collnet = chain.net;
    const TreePlace& links = cluster.trees[size_t(c)][size_t(rank)];
    if (links.up >= 0 && cluster.node_of(links.up) != node) channel.tree_up = use.tree_up;
    for (size_t i = 0; i < std::size(links.down); ++i) {
      if (links.down[i] < 0) continue;
      const int child = cluster.node_of(links.down[i]);
      if (child == node) continue;
      const int tree = tree_chain(cluster, c, node).tree;
      channel.tree_down[i] = use.tree_down[double_binary_tree(tree, cluster.nodes(), child).side];
    }
  }
  return wiring;
}

}  // namespace collctl::topology
