// Walks over the rings and trees of a cluster that share nothing with the code but the arrays of
// ranks.
#pragma once
#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <vector>

#include "topology/cluster/cluster.h"

// Powers of two, not the code's bit tricks.
inline int levels(int n) {
  int count = 0;
  for (int reach = 1; reach < n; reach *= 2) ++count;
  return count;
}

// Walks the ring by its links and counts how often it changes node; -1 when it is no single loop.
inline int node_changes(const collctl::topology::Cluster& cluster, int channel,
                        const std::vector<int>& node_of) {
  const std::vector<int>& ring = cluster.rings[size_t(channel)];
  std::map<int, int> next;
  for (size_t i = 0; i < ring.size(); ++i) next[ring[i]] = ring[(i + 1) % ring.size()];
  if (int(next.size()) != cluster.ranks()) return -1;
  int changes = 0, at = 0;
  for (int step = 0; step < cluster.ranks(); ++step) {
    const int to = next.at(at);
    changes += node_of[size_t(at)] != node_of[size_t(to)];
    at = to;
    if (at == 0 && step + 1 < cluster.ranks()) return -1;
  }
  return at == 0 ? changes : -1;
}

// Depth in ranks by climbing from every rank; -1 when a climb does not end at the one root, a
// parent does not know its child, or a child is known twice.
inline int tree_depth(const collctl::topology::Cluster& cluster, int channel) {
  const std::vector<collctl::topology::TreePlace>& tree = cluster.trees[size_t(channel)];
  std::multiset<int> children;
  for (const collctl::topology::TreePlace& place : tree)
    for (const int down : place.down)
      if (down >= 0) children.insert(down);
  int root = -1, deepest = 0;
  for (int rank = 0; rank < cluster.ranks(); ++rank) {
    const int up = tree[size_t(rank)].up;
    if (children.count(rank) != (up >= 0 ? 1u : 0u)) return -1;
    if (up >= 0) {
      const auto& down = tree[size_t(up)].down;
      if (std::find(std::begin(down), std::end(down), rank) == std::end(down)) return -1;
    }
    int at = rank, hops = 0;
    for (; tree[size_t(at)].up >= 0; at = tree[size_t(at)].up)
      if (++hops > cluster.ranks()) return -1;
    if (root >= 0 && at != root) return -1;
    root = at;
    deepest = std::max(deepest, hops);
  }
  return deepest;
}

// Links between nodes on the way from a rank to the root, the most of all ranks.
inline int node_depth(const collctl::topology::Cluster& cluster, int channel,
                      const std::vector<int>& node_of) {
  const std::vector<collctl::topology::TreePlace>& tree = cluster.trees[size_t(channel)];
  int deepest = 0;
  for (int rank = 0; rank < cluster.ranks(); ++rank) {
    int hops = 0;
    for (int at = rank; tree[size_t(at)].up >= 0; at = tree[size_t(at)].up)
      hops += node_of[size_t(at)] != node_of[size_t(tree[size_t(at)].up)];
    deepest = std::max(deepest, hops);
  }
  return deepest;
}

inline std::vector<int> nodes_of_ranks(const std::vector<int>& sizes) {
  std::vector<int> node_of;
  for (size_t node = 0; node < sizes.size(); ++node)
    node_of.insert(node_of.end(), size_t(sizes[node]), int(node));
  return node_of;
}
