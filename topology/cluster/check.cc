// The proof that every plan gets: written apart from how clusters are made, from ranks alone.
#include "base/format.h"
#include "topology/cluster/cluster.h"

namespace collctl::topology {
namespace {

Error broken(int channel, const std::string& what) {
  return {ErrorCode::defect, format("channel {}: {}", channel, what), "please report this"};
}

Status check_ring(const Cluster& cluster, int channel) {
  const std::vector<int>& ring = cluster.rings[size_t(channel)];
  const size_t ranks = size_t(cluster.ranks());
  std::vector<bool> seen(ranks, false);
  int entries = 0;
  for (size_t i = 0; i < ring.size(); ++i) {
    const int rank = ring[i], next = ring[(i + 1) % ring.size()];
    if (rank < 0 || size_t(rank) >= ranks)
      return broken(channel, format("the ring lists rank {} of {}", rank, ranks));
    if (seen[size_t(rank)]) return broken(channel, format("rank {} is in the ring twice", rank));
    seen[size_t(rank)] = true;
    entries += cluster.node_of(rank) != cluster.node_of(next);
  }
  if (ring.size() != ranks)
    return broken(channel, format("the ring has {} of {} ranks", ring.size(), ranks));
  const int wanted = cluster.nodes() > 1 ? cluster.nodes() : 0;
  if (entries != wanted)
    return broken(
        channel, format("the ring goes from node to node {} times instead of {}", entries, wanted));
  return {};
}

Status check_tree(const Cluster& cluster, int channel) {
  const std::vector<TreePlace>& tree = cluster.trees[size_t(channel)];
  const size_t ranks = size_t(cluster.ranks());
  if (tree.size() != ranks)
    return broken(channel, format("the tree has {} of {} ranks", tree.size(), ranks));
  std::vector<int> queue;
  for (size_t rank = 0; rank < ranks; ++rank)
    if (tree[rank].up < 0) queue.push_back(int(rank));
  if (queue.size() != 1) return broken(channel, format("the tree has {} roots", queue.size()));
  std::vector<bool> seen(ranks, false);
  seen[size_t(queue[0])] = true;
  for (size_t i = 0; i < queue.size(); ++i) {
    for (const int child : tree[size_t(queue[i])].down) {
      if (child < 0) continue;
      if (size_t(child) >= ranks || tree[size_t(child)].up != queue[i])
        return broken(
            channel, format("rank {} has the child {}, which has another parent", queue[i], child));
      if (seen[size_t(child)])
        return broken(channel, format("the tree reaches rank {} twice", child));
      seen[size_t(child)] = true;
      queue.push_back(child);
    }
  }
  if (queue.size() != ranks)
    return broken(channel, format("the tree reaches {} of {} ranks", queue.size(), ranks));
  return {};
}

}  // namespace

Status check_cluster(const Cluster& cluster) {
  if (cluster.rings.empty() || cluster.rings.size() != cluster.trees.size())
    return broken(0, format("{} rings and {} trees", cluster.rings.size(), cluster.trees.size()));
  for (int channel = 0; channel < cluster.channels(); ++channel) {
    COLL_TRY(check_ring(cluster, channel));
    COLL_TRY(check_tree(cluster, channel));
  }
  return {};
}

}  // namespace collctl::topology
