#include "topology/cluster/cluster.h"

#include <algorithm>

#include "base/check.h"
#include "base/format.h"
#include "topology/cluster/double_tree.h"

namespace collctl::topology {
namespace {

constexpr int kDoublingSm = 90;
constexpr double kDoublingGbps = 45;
constexpr int kDoublingBelow = 16;

Error usage(std::string message) {
  return {ErrorCode::usage, std::move(message)};
}

// Empty, or why it is no order of the node's GPUs.
std::string bad_order(const std::vector<int>& order, int ranks) {
  std::vector<bool> seen(size_t(ranks), false);
  for (const int rank : order) {
    if (rank < 0 || rank >= ranks) return format("it lists GPU {} of {}", rank, ranks);
    if (seen[size_t(rank)]) return format("it lists GPU {} twice", rank);
    seen[size_t(rank)] = true;
  }
  if (int(order.size()) != ranks) return format("it has {} of {} GPUs", order.size(), ranks);
  return {};
}

Status check_channels(const ClusterNode& node, const std::vector<NodeChannel>& channels,
                      const char* what, bool several) {
  if (channels.empty()) return usage(format("{}: no {} channels", node.name, what));
  for (size_t c = 0; c < channels.size(); ++c) {
    if (const std::string why = bad_order(channels[c].order, node.ranks); !why.empty())
      return usage(format("{}: {} channel {}: {}", node.name, what, c, why));
    const int nets = int(node.nets.size());
    if (channels[c].in >= nets || channels[c].out >= nets)
      return usage(format("{}: {} channel {}: no such network device", node.name, what, c));
    if (several && (channels[c].in < 0 || channels[c].out < 0))
      return Error(
          ErrorCode::unavailable,
          node.nets.empty()
              ? format("{}: no network device, so the nodes cannot reach each other", node.name)
              : format("{}: {} channel {} has no path to a network device", node.name, what, c),
          "plan one node, or add a <nic> with a <net> to the topology");
  }
  return {};
}

Status check_nodes(const std::vector<ClusterNode>& kinds, const std::vector<int>& kind_of) {
  if (kind_of.empty()) return usage("no nodes to join");
  if (kind_of.size() > size_t(kMaxClusterNodes))
    return usage(format("{} nodes: at most {} can be joined", kind_of.size(), kMaxClusterNodes));
  const bool several = kind_of.size() > 1;
  int64_t ranks = 0;
  for (const ClusterNode& node : kinds) {
    if (node.ranks <= 0)
      return Error(ErrorCode::unavailable, format("{}: no GPU, so no rank", node.name));
    COLL_TRY(check_channels(node, node.ring_channels, "ring", several));
    COLL_TRY(check_channels(node, node.tree_channels, "tree", several));
    if (!node.collnet_channels.empty())
      COLL_TRY(check_channels(node, node.collnet_channels, "collnet", false));
  }
  for (const int kind : kind_of) {
    COLL_CHECK(kind >= 0 && size_t(kind) < kinds.size());
    ranks += kinds[size_t(kind)].ranks;
  }
  if (ranks > kMaxClusterRanks)
    return usage(format("{} ranks: at most {} can be joined", ranks, kMaxClusterRanks));
  return {};
}

// The least of both; the busiest link is that of the slower side.
PatternFacts least(const PatternFacts& a, const PatternFacts& b) {
  PatternFacts both = a.bw_inter * a.channels <= b.bw_inter * b.channels ? a : b;
  both.channels = std::min(a.channels, b.channels);
  both.bw_intra = std::min(a.bw_intra, b.bw_intra);
  both.bw_inter = std::min(a.bw_inter, b.bw_inter);
  both.type_intra = std::max(a.type_intra, b.type_intra);
  both.type_inter = std::max(a.type_inter, b.type_inter);
  both.same_channels = a.same_channels && b.same_channels;
  both.cross_nic = std::max(a.cross_nic, b.cross_nic);
  both.latency_inter_us = std::max(a.latency_inter_us, b.latency_inter_us);
  return both;
}

// A plain tree reaches the network with one GPU only, and so limits the others.
int narrowness(Pattern pattern) {
  return pattern == Pattern::tree ? 2 : pattern == Pattern::split_tree ? 1 : 0;
}

void agree(Cluster& cluster) {
  std::vector<bool> seen(cluster.kinds.size(), false);
  bool first = true;
  for (const int kind : cluster.kind_of) {
    if (seen[size_t(kind)]) continue;
    seen[size_t(kind)] = true;
    const ClusterNode& node = cluster.kinds[size_t(kind)];
    cluster.ring = first ? node.ring : least(cluster.ring, node.ring);
    cluster.tree = first ? node.tree : least(cluster.tree, node.tree);
    cluster.min_sm = first ? node.min_sm : std::min(cluster.min_sm, node.min_sm);
    cluster.max_sm = std::max(cluster.max_sm, node.max_sm);
    if (first) cluster.gpu_model = node.gpu_model;
    cluster.amd_gpus = cluster.amd_gpus || node.amd_gpus;
    if (first || narrowness(node.tree_pattern) > narrowness(cluster.tree_pattern))
      cluster.tree_pattern = node.tree_pattern;
    cluster.cpu = first || cluster.cpu == node.cpu ? node.cpu : CpuMaker::mixed;
    first = false;
  }
  // Rings and trees run on the same channels.
  const int both = std::min(cluster.ring.channels, cluster.tree.channels);
  cluster.ring.channels = cluster.tree.channels = both;
}

// How many channels there will be; says how in `steps`.
int count_channels(Cluster& cluster, const ClusterOptions& options) {
  int count = std::min(2 * cluster.ring.channels, kMaxClusterChannels);
  cluster.steps.push_back(format("{} in every node, used twice (once with each tree): {}",
                                 cluster.ring.channels, count));
  if (cluster.min_sm >= kDoublingSm && !cluster.amd_gpus && cluster.nodes() > 1 &&
      cluster.ring.bw_intra > kDoublingGbps && count < kDoublingBelow) {
    count *= 2;
    cluster.steps.push_back(
        format("SM {} on several nodes, fewer than {} channels of more than "
               "{} GB/s: each used twice again: {}",
               cluster.min_sm, kDoublingBelow, kDoublingGbps, count));
  }
  cluster.full_channels = count;
  if (options.max_channels > 0 && options.max_channels < count) {
    count = options.max_channels;
    cluster.steps.push_back(format("at most {} were requested: the first {}", count, count));
  }
  cluster.distinct_channels = count;
  const int wanted = std::min(options.min_channels, kMaxClusterChannels);
  if (wanted > count) {
    cluster.steps.push_back(format("at least {} were requested: the {} repeat", wanted, count));
    count = wanted;
  }
  return count;
}

struct Origin {
  int search = 0;  // which channel of the search
  int tree = 0;    // 0 or 1
};
// The second half of the channels repeats the search's on tree 1, further ones repeat from the
// start.
Origin origin_of(const Cluster& cluster, int channel) {
  const int distinct = channel % cluster.distinct_channels, found = cluster.ring.channels;
  return {distinct % found, distinct / found % 2};
}

bool are_mirrored(const NodeChannel& a, const NodeChannel& b) {
  return a.in == b.out && a.out == b.in;
}

// Rings that alternate between two devices: odd nodes take the ring that goes the other way, so
// that what leaves by a device enters by the same one. That is the neighbour as a rule; NCCL
// knows only this, and only for an even number of channels, so that others cross rails there.
std::vector<int> make_partners(const ClusterNode& kind, int channels) {
  std::vector<int> partner;
  for (int c = 0; c < channels; ++c) partner.push_back(c);
  if (kind.ring.cross_nic != 2) return partner;
  const auto& rings = kind.ring_channels;
  const auto pair = [&](int a, int b) {
    partner[size_t(a)] = b;
    partner[size_t(b)] = a;
  };
  for (int c = 0; c + 1 < channels; c += 2)
    if (are_mirrored(rings[size_t(c)], rings[size_t(c) + 1])) pair(c, c + 1);
  for (int c = 0; c < channels; ++c)
    for (int d = c + 1; d < channels; ++d)
      if (partner[size_t(c)] == c && partner[size_t(d)] == d &&
          rings[size_t(c)].in != rings[size_t(c)].out &&
          are_mirrored(rings[size_t(c)], rings[size_t(d)]))
        pair(c, d);
  return partner;
}

const NodeChannel& ring_channel(const Cluster& cluster, int search, int node) {
  const int kind = cluster.kind_of[size_t(node)];
  if (node % 2 == 1) search = cluster.partners[size_t(kind)][size_t(search)];
  return cluster.node(node).ring_channels[size_t(search)];
}

std::vector<int> make_ring(const Cluster& cluster, int search) {
  std::vector<int> ring;
  ring.reserve(size_t(cluster.ranks()));
  for (int node = 0; node < cluster.nodes(); ++node)
    for (const int local : ring_channel(cluster, search, node).order)
      ring.push_back(cluster.first_rank[size_t(node)] + local);
  std::rotate(ring.begin(), std::find(ring.begin(), ring.end(), 0), ring.end());
  return ring;
}

// The place in the chain whose GPU talks to the lower (0) or upper (1) child.
size_t contact_place(const ClusterNode& node, int side) {
  if (node.ranks < 2 || node.tree_pattern == Pattern::tree) return 0;
  if (node.tree_pattern == Pattern::split_tree) return 1;
  return side == 0 ? 1 : 0;
}

void add_child(std::vector<TreePlace>& places, int parent, int child) {
  places[size_t(child)].up = parent;
  for (int& down : places[size_t(parent)].down) {
    if (down >= 0) continue;
    down = child;
    return;
  }
  COLL_CHECK_NOTE(false, "a rank has more than two children and its chain");
}

std::vector<TreePlace> make_tree(const Cluster& cluster, int channel) {
  std::vector<TreePlace> places(size_t(cluster.ranks()));
  std::vector<TreeChain> chains;
  // A rank's chain comes first among its children, as NCCL prints it.
  for (int node = 0; node < cluster.nodes(); ++node) {
    const TreeChain& chain = chains.emplace_back(tree_chain(cluster, channel, node));
    for (size_t i = 1; i < chain.ranks.size(); ++i)
      add_child(places, chain.ranks[i - 1], chain.ranks[i]);
  }
  for (int node = 0; node < cluster.nodes(); ++node) {
    const TreeChain& chain = chains[size_t(node)];
    for (const int child : double_binary_tree(chain.tree, cluster.nodes(), node).down) {
      if (child < 0) continue;
      const int side = double_binary_tree(chain.tree, cluster.nodes(), child).side;
      add_child(places, chain.child[side], chains[size_t(child)].ranks[0]);
    }
  }
  return places;
}

}  // namespace

int Cluster::node_of(int rank) const {
  return int(std::upper_bound(first_rank.begin(), first_rank.end(), rank) - first_rank.begin()) - 1;
}

int Cluster::largest_node() const {
  int most = 0;
  for (const int kind : kind_of) most = std::max(most, kinds[size_t(kind)].ranks);
  return most;
}

Result<Cluster> join_nodes(std::vector<ClusterNode> kinds, std::vector<int> kind_of,
                           const ClusterOptions& options) {
  COLL_TRY(check_nodes(kinds, kind_of));
  Cluster cluster;
  cluster.kinds = std::move(kinds);
  cluster.kind_of = std::move(kind_of);
  cluster.first_rank.push_back(0);
  for (int node = 0; node < cluster.nodes(); ++node)
    cluster.first_rank.push_back(cluster.first_rank.back() + cluster.node(node).ranks);
  agree(cluster);
  for (const ClusterNode& kind : cluster.kinds) {
    // Kinds that no node is of may have fewer channels.
    const int channels = std::min(cluster.ring.channels, int(kind.ring_channels.size()));
    cluster.partners.push_back(make_partners(kind, channels));
  }
  const int count = count_channels(cluster, options);
  for (int channel = 0; channel < count; ++channel) {
    cluster.rings.push_back(make_ring(cluster, origin_of(cluster, channel).search));
    cluster.trees.push_back(make_tree(cluster, channel));
  }
  return cluster;
}

TreeChain tree_chain(const Cluster& cluster, int channel, int node) {
  const Origin origin = origin_of(cluster, channel);
  const ClusterNode& kind = cluster.node(node);
  const NodeChannel& found = kind.tree_channels[size_t(origin.search)];
  TreeChain chain{.tree = origin.tree, .ranks = found.order, .parent_net = found.in};
  for (int& rank : chain.ranks) rank += cluster.first_rank[size_t(node)];
  for (const int side : {0, 1}) {
    // The first GPU of the chain has the channel's first device, the second its second.
    const size_t place = contact_place(kind, side);
    chain.child[side] = chain.ranks[place];
    chain.child_net[side] = place == 0 ? found.in : found.out;
  }
  return chain;
}

NetUse net_use(const Cluster& cluster, int channel, int node) {
  NetUse use;
  if (cluster.nodes() < 2) return use;
  const NodeChannel& ring = ring_channel(cluster, origin_of(cluster, channel).search, node);
  use.ring_in = ring.in;
  use.ring_out = ring.out;
  const TreeChain chain = tree_chain(cluster, channel, node);
  const BinaryPlace place = double_binary_tree(chain.tree, cluster.nodes(), node);
  if (place.up >= 0) use.tree_up = chain.parent_net;
  for (const int child : place.down) {
    if (child < 0) continue;
    const int side = double_binary_tree(chain.tree, cluster.nodes(), child).side;
    use.tree_down[side] = chain.child_net[side];
  }
  return use;
}

RailUse rail_use(const Cluster& cluster) {
  RailUse rails;
  const int nodes = cluster.nodes();
  if (nodes < 2) return rails;
  for (int channel = 0; channel < cluster.channels(); ++channel) {
    std::vector<NetUse> uses;
    for (int node = 0; node < nodes; ++node) uses.push_back(net_use(cluster, channel, node));
    for (int node = 0; node < nodes; ++node) {
      const NetUse& mine = uses[size_t(node)];
      ++rails.ring_links;
      rails.ring_crossings += mine.ring_out != uses[size_t((node + 1) % nodes)].ring_in;
      const BinaryPlace place = double_binary_tree(origin_of(cluster, channel).tree, nodes, node);
      if (place.up < 0) continue;
      ++rails.tree_links;
      rails.tree_crossings += mine.tree_up != uses[size_t(place.up)].tree_down[place.side];
    }
  }
  return rails;
}

}  // namespace collctl::topology
