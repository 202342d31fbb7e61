// Clusters of 1..256 nodes, equal, unequal and random: rings are loops, trees reach everybody, as
// deep as in the formula.
#include <algorithm>
#include <random>

#include "tests/how_much.h"
#include "tests/unit/topology/cluster/cluster_nodes.h"
#include "tests/unit/topology/cluster/cluster_walks.h"
#include "topology/cluster/double_tree.h"

namespace cluster_cluster_many_tests {

using namespace collctl;
using namespace collctl::topology;

TEST_CASE("both trees reach every place, ceil(log2 n) deep; inner in one is a leaf in the other",
          "[cluster]") {
  for (int n = 1; n <= 257; ++n) {
    INFO(n << " places");
    std::vector<int> inner(size_t(n), 0);
    for (const int tree : {0, 1}) {
      int roots = 0, deepest = 0;
      for (int p = 0; p < n; ++p) {
        const BinaryPlace place = double_binary_tree(tree, n, p);
        roots += place.up < 0;
        inner[size_t(p)] += place.down[0] >= 0;
        int hops = 0;
        for (int at = p; double_binary_tree(tree, n, at).up >= 0 && hops <= n; ++hops)
          at = double_binary_tree(tree, n, at).up;
        deepest = std::max(deepest, hops);
        if (place.up < 0) continue;
        const BinaryPlace above = double_binary_tree(tree, n, place.up);
        REQUIRE((above.down[0] == p || above.down[1] == p));
        // The first of two children is the lower one in the tree's own count.
        if (above.down[1] >= 0) REQUIRE(place.side == (above.down[1] == p ? 1 : 0));
      }
      REQUIRE(roots == 1);
      REQUIRE(deepest == levels(n));
      REQUIRE(double_tree_depth(n) == levels(n));
    }
    // Odd n: the shift puts an even place of tree 0 (n - 1, with a child when n > 1) onto place 0.
    for (int p = 0; p < n; ++p) REQUIRE(inner[size_t(p)] <= (p == 0 && n % 2 == 1 ? 2 : 1));
  }
}

TEST_CASE("1..256 nodes of equal and unequal sizes: loops, trees, depth", "[cluster]") {
  const std::vector<Pattern> patterns = {Pattern::tree, Pattern::balanced_tree,
                                         Pattern::split_tree};
  // All of the small ones and the largest.
  test::Part part(test::Sweep::cluster_nodes);
  for (int nodes = 1; nodes <= 256; ++nodes) {
    if (!part.takes() && nodes > 20) continue;
    const Pattern pattern = patterns[size_t(nodes) % 3];
    for (const bool equal : {true, false}) {
      INFO(nodes << " nodes, " << (equal ? "equal" : "unequal"));
      std::vector<int> kind_of = equal_nodes(nodes);
      if (!equal)
        for (int node = 0; node < nodes; ++node) kind_of[size_t(node)] = node * 7 % 4;
      const std::vector<int> sizes_of_kind = {3, 1, 5, 2};
      std::vector<ClusterNode> kinds;
      for (const int size : sizes_of_kind)
        kinds.push_back(rail_node(size, size == 5 ? 3 : 2, pattern));
      std::vector<int> sizes;
      for (const int kind : kind_of) sizes.push_back(sizes_of_kind[size_t(kind)]);
      const std::vector<int> node_of = nodes_of_ranks(sizes);
      const Cluster cluster = joined(kinds, kind_of);
      REQUIRE(cluster.ranks() == int(node_of.size()));
      REQUIRE(cluster.channels() == 4);  // the least of all nodes, twice
      REQUIRE(check_cluster(cluster).ok());
      for (int channel = 0; channel < cluster.channels(); ++channel) {
        REQUIRE(node_changes(cluster, channel, node_of) == (nodes > 1 ? nodes : 0));
        REQUIRE(node_depth(cluster, channel, node_of) == levels(nodes));
        const int depth = tree_depth(cluster, channel);
        if (!equal) {
          REQUIRE(depth >= 0);
          continue;
        }
        // The chain below a node's first GPU is 3 - 1 deep, and there is a node at the full depth
        // of ceil(log2 n). Each link that ends at a second GPU costs one more hop: in a split tree
        // all do; in a balanced one the lower children's do, which on the deepest way (1, 2, 4,
        // ..., 2^k, 0) are all but the last.
        int expected = levels(nodes) + 2;
        if (pattern == Pattern::split_tree) expected += levels(nodes);
        if (pattern == Pattern::balanced_tree && nodes > 1) expected += levels(nodes) - 1;
        REQUIRE(depth == expected);
      }
    }
  }
}

TEST_CASE("random nodes: any orders, patterns, devices and limits give loops and trees",
          "[cluster]") {
  std::mt19937 random(7);
  const auto upto = [&](int n) { return int(random() % uint32_t(n)); };
  for (int round = 0; round < 300; ++round) {
    INFO("round " << round);
    std::vector<ClusterNode> kinds;
    for (int kind = 0; kind <= upto(4); ++kind) {
      ClusterNode node = rail_node(1 + upto(9), 1 + upto(7), Pattern(1 + upto(3)));
      node.ring.cross_nic = upto(3);
      for (auto* channels : {&node.ring_channels, &node.tree_channels})
        for (NodeChannel& channel : *channels) {
          std::shuffle(channel.order.begin(), channel.order.end(), random);
          channel.in = upto(node.ranks);
          channel.out = upto(node.ranks);
        }
      kinds.push_back(node);
    }
    std::vector<int> kind_of, sizes;
    for (int node = 0; node <= upto(40); ++node) kind_of.push_back(upto(int(kinds.size())));
    for (const int kind : kind_of) sizes.push_back(kinds[size_t(kind)].ranks);
    const std::vector<int> node_of = nodes_of_ranks(sizes);
    const int nodes = int(sizes.size());
    const Cluster cluster =
        joined(kinds, kind_of, {.min_channels = upto(20), .max_channels = upto(20)});
    REQUIRE(check_cluster(cluster).ok());
    for (int channel = 0; channel < cluster.channels(); ++channel) {
      REQUIRE(node_changes(cluster, channel, node_of) == (nodes > 1 ? nodes : 0));
      REQUIRE(tree_depth(cluster, channel) >= 0);
      REQUIRE(node_depth(cluster, channel, node_of) == levels(nodes));
      for (int node = 0; node < nodes; ++node)
        REQUIRE(cluster.node_of(cluster.first_rank[size_t(node)]) == node);
    }
  }
}

}  // namespace cluster_cluster_many_tests
