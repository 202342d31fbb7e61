#include "topology/cluster/wiring.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "topology/cluster/double_tree.h"

namespace collctl::topology {
namespace {

// The device for what goes to a child on another node.
int to_child(const Cluster& cluster, int channel, int node, int child_node, const NetUse& use) {
  const int tree = tree_chain(cluster, channel, node).tree;
  return use.tree_down[double_binary_tree(tree, cluster.nodes(), child_node).side];
}

class RelayFinder {
 public:
  RelayFinder(const Cluster& cluster, std::optional<int> rank) : cluster_(cluster), rank_(rank) {}

  std::vector<RelayedLink> find() {
    const auto relays = [](const ClusterNode& node) {
      return std::ranges::any_of(node.relay, [](const std::vector<int>& of_rank) {
        return std::ranges::any_of(of_rank, [](int by) { return by >= 0; });
      });
    };
    if (cluster_.nodes() == 1 || std::ranges::none_of(cluster_.kinds, relays)) return {};
    for (int rank = 0; rank < cluster_.ranks(); ++rank) node_of_.push_back(cluster_.node_of(rank));
    for (channel_ = 0; channel_ < cluster_.channels(); ++channel_) {
      uses_.clear();
      seen_.clear();
      add_ring();
      add_tree();
    }
    return std::move(found_);
  }

 private:
  void add_ring() {
    const std::vector<int>& ring = cluster_.rings[size_t(channel_)];
    for (size_t i = 0; i < ring.size(); ++i)
      add(ring[i], ring[(i + 1) % ring.size()], [](const NetUse& use) { return use.ring_out; });
  }
  void add_tree() {
    const std::vector<TreePlace>& tree = cluster_.trees[size_t(channel_)];
    for (int rank = 0; rank < int(tree.size()); ++rank) {
      const TreePlace& place = tree[size_t(rank)];
      if (place.up >= 0) add(rank, place.up, [](const NetUse& use) { return use.tree_up; });
      for (const int down : place.down)
        if (down >= 0)
          add(rank, down, [&](const NetUse& use) {
            const int node = node_of_[size_t(rank)], child = node_of_[size_t(down)];
            return to_child(cluster_, channel_, node, child, use);
          });
    }
  }
  template <class DeviceOf>
  void add(int from, int to, const DeviceOf& device_of) {
    const int node = node_of_[size_t(from)];
    if (node == node_of_[size_t(to)] || !concerns(node, to)) return;
    const int device = device_of(use(node));
    if (device < 0 || !seen_.emplace(from, to).second) return;
    const int first = cluster_.first_rank[size_t(node)];
    const auto& relay = cluster_.node(node).relay;
    const int by = relay.empty() ? -1 : relay[size_t(from - first)][size_t(device)];
    if (by >= 0) found_.push_back({channel_, from, to, first + by, device});
  }
  bool concerns(int from_node, int to) const {
    return !rank_ || to == *rank_ || from_node == node_of_[size_t(*rank_)];
  }
  const NetUse& use(int node) {
    const auto known = uses_.find(node);
    if (known != uses_.end()) return known->second;
    return uses_.emplace(node, net_use(cluster_, channel_, node)).first->second;
  }

  const Cluster& cluster_;
  const std::optional<int> rank_;
  int channel_ = 0;
  std::vector<int> node_of_;
  std::map<int, NetUse> uses_;  // of the channel, by node
  std::set<std::pair<int, int>> seen_;
  std::vector<RelayedLink> found_;
};

}  // namespace

std::vector<RelayedLink> relayed_links(const Cluster& cluster, std::optional<int> rank) {
  return RelayFinder(cluster, rank).find();
}

std::vector<PairLink> pair_links(const Cluster& cluster, int from, int to_place) {
  const int at = cluster.node_of(from), first = cluster.first_rank[size_t(at)];
  const ClusterNode& node = cluster.node(at);
  const auto place = size_t(from - first);
  if (place >= node.near.size() || node.near[place].empty()) return {};
  const std::vector<int>& own = node.near[place];
  const bool has_rail = place < node.rail_senders.size() && size_t(to_place) < node.near.size();
  const std::vector<int>& rail = has_rail ? node.near[size_t(to_place)] : own;
  const auto sender = [&](int device) {
    return has_rail ? node.rail_senders[place][size_t(device)] : -1;
  };
  const bool all = std::ranges::all_of(rail, [&](int device) { return sender(device) >= 0; });
  std::vector<PairLink> links;
  for (size_t turn = 0; turn < (all ? rail.size() : std::lcm(rail.size(), own.size())); ++turn) {
    PairLink& link = links.emplace_back(PairLink{.device = own[turn % own.size()]});
    const int by = rail.empty() ? -1 : sender(rail[turn % rail.size()]);
    if (by < 0) continue;
    link.device = rail[turn % rail.size()];
    if (first + by == from) continue;
    link.by = first + by;
    link.asked = node.pxn_asked;
  }
  return links;
}

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
      channel.tree_down[i] = to_child(cluster, c, node, child, use);
    }
  }
  return wiring;
}

}  // namespace collctl::topology
