// Nodes joined into rings and trees, by hand for few nodes; many in test_cluster_many.cc.
#include "topology/cluster/cluster.h"

#include "tests/unit/topology/cluster/cluster_nodes.h"
#include "topology/cluster/double_tree.h"

namespace cluster_cluster_tests {

using namespace collctl;
using namespace collctl::topology;

TEST_CASE("the double binary tree of eight and of six places", "[cluster]") {
  // n = 8 by the rule: 4 below 0 (highest power of two below 8), 4 -+ 2, 2 -+ 1 and 6 -+ 1.
  const int up8[] = {-1, 2, 4, 2, 0, 6, 4, 6};
  // n = 6: 4 below 0; 2 and 5 below 4 (6 is outside, half the offset gives 5); 1 and 3 below 2.
  const int up6[] = {-1, 2, 4, 2, 0, 4};
  // n = 7, tree 1: tree 0 (4 below 0; 2, 6; 1, 3, 5) with every place one higher, modulo 7.
  const int up7[] = {5, -1, 3, 5, 3, 1, 0};
  for (int p = 0; p < 8; ++p) CHECK(double_binary_tree(0, 8, p).up == up8[p]);
  for (int p = 0; p < 6; ++p) {
    CHECK(double_binary_tree(0, 6, p).up == up6[p]);
    // Even n: tree 1 is the mirror image.
    const int mirrored = double_binary_tree(1, 6, 5 - p).up;
    CHECK((mirrored < 0 ? -1 : 5 - mirrored) == up6[p]);
  }
  for (int p = 0; p < 7; ++p) CHECK(double_binary_tree(1, 7, p).up == up7[p]);
}

TEST_CASE("two nodes of four GPUs, by hand", "[cluster]") {
  const Cluster cluster = joined({rail_node(4, 2)}, equal_nodes(2));
  // Two search channels, each twice.
  REQUIRE(cluster.channels() == 4);
  // Channel 0: 0 3 2 1, then node 1's 4 7 6 5; channel 1: 1 0 3 2 and 5 4 7 6, from rank 0 on.
  CHECK(cluster.rings[0] == std::vector<int>{0, 3, 2, 1, 4, 7, 6, 5});
  CHECK(cluster.rings[1] == std::vector<int>{0, 3, 2, 5, 4, 7, 6, 1});
  CHECK(cluster.rings[2] == cluster.rings[0]);
  CHECK(cluster.rings[3] == cluster.rings[1]);
  // Channel 0, tree 0: root node 0, whose chain is 0 3 2 1. Node 1 is an upper child (1 > 0): in a
  // balanced tree it hangs on the first GPU. NCCL prints "Trees [0] 3/4/-1->0->-1".
  const auto& first = cluster.trees[0];
  CHECK(first[0].up == -1);
  CHECK(std::vector<int>(first[0].down, first[0].down + 3) == std::vector<int>{3, 4, -1});
  CHECK(first[3].up == 0);
  CHECK(first[3].down[0] == 2);
  CHECK(first[4].up == 0);
  CHECK(first[4].down[0] == 7);
  CHECK(first[1].down[0] == -1);
  // Channel 2 is channel 0 on tree 1: root node 1.
  CHECK(cluster.trees[2][4].up == -1);
  CHECK(cluster.trees[2][0].up == 4);
  CHECK(cluster.trees[2][4].down[1] == 0);
}

TEST_CASE("the trees that NCCL 2.28.9 prints for two H200 on NVSwitches", "[cluster]") {
  // Its search gave 12 chains, six of 0 1 and six of 1 0. "Trees [0] 1/-1/-1->0->-1 ... [6]
  // -1/-1/-1->0->1 ... [12] 1/-1/-1->0->-1 ... [18] -1/-1/-1->0->1 ... [23] -1/-1/-1->0->1".
  ClusterNode node = rail_node(2, 12);
  for (size_t c = 0; c < 12; ++c)
    node.tree_channels[c].order = c < 6 ? std::vector<int>{0, 1} : std::vector<int>{1, 0};
  const Cluster cluster = joined({node}, equal_nodes(1));
  REQUIRE(cluster.channels() == 24);
  for (size_t c = 0; c < 24; ++c) {
    const bool root = c % 12 < 6;
    const TreePlace& place = cluster.trees[c][0];
    CHECK(place.up == (root ? -1 : 1));
    CHECK(place.down[0] == (root ? 1 : -1));
    CHECK(place.down[1] == -1);
    CHECK(cluster.rings[c] == std::vector<int>{0, 1});
  }
}

TEST_CASE("tree contacts by pattern: three nodes of three GPUs, by hand", "[cluster]") {
  // Tree 0 of three nodes: 0 -> 2 -> 1; node 1 is the lower child of node 2, node 2 the upper of 0.
  // Chains of channel 0: 0 2 1, 3 5 4, 6 8 7: first GPUs 0 3 6, second GPUs 2 5 8.
  const auto parents = [](Pattern pattern) {
    const Cluster cluster = joined({rail_node(3, 1, pattern)}, equal_nodes(3));
    return std::pair{cluster.trees[0][6].up, cluster.trees[0][3].up};
  };
  CHECK(parents(Pattern::tree) == std::pair{0, 6});           // both on the first
  CHECK(parents(Pattern::split_tree) == std::pair{2, 8});     // both on the second
  CHECK(parents(Pattern::balanced_tree) == std::pair{0, 8});  // lower on the second, upper first
}

TEST_CASE("where all nodes have the same NICs no channel crosses rails", "[cluster]") {
  for (const int nodes : {2, 3, 8, 17, 64}) {
    const Cluster cluster = joined({rail_node(8, 8)}, equal_nodes(nodes));
    const RailUse rails = rail_use(cluster);
    CHECK(rails.ring_links == int64_t{16} * nodes);
    CHECK(rails.tree_links == int64_t{16} * (nodes - 1));
    CHECK(rails.ring_crossings == 0);
    CHECK(rails.tree_crossings == 0);
    for (int channel = 0; channel < cluster.channels(); ++channel)
      for (int node = 0; node < nodes; ++node) {
        const NetUse use = net_use(cluster, channel, node);
        REQUIRE(use.ring_in == channel % 8);
        REQUIRE(use.ring_out == channel % 8);
      }
  }
}

TEST_CASE("rings that alternate between two NICs: odd nodes take the neighbouring ring",
          "[cluster]") {
  // Ring 0 enters by NIC 0 and leaves by NIC 1, ring 1 the other way round.
  ClusterNode node = rail_node(4, 2);
  node.ring.cross_nic = 2;
  node.ring_channels[0].in = 0;
  node.ring_channels[0].out = 1;
  node.ring_channels[1].in = 1;
  node.ring_channels[1].out = 0;
  const Cluster two = joined({node}, equal_nodes(2));
  REQUIRE(check_cluster(two).ok());
  // Node 0 in ring 0's order 0 3 2 1, node 1 in ring 1's order 5 4 7 6.
  CHECK(two.rings[0] == std::vector<int>{0, 3, 2, 1, 5, 4, 7, 6});
  CHECK(net_use(two, 0, 0).ring_out == 1);
  CHECK(net_use(two, 0, 1).ring_in == 1);
  CHECK(net_use(two, 0, 1).ring_out == 0);
  for (int nodes = 2; nodes <= 33; ++nodes) {
    const RailUse rails = rail_use(joined({node}, equal_nodes(nodes)));
    // Each node changes the NIC, so around an odd number of nodes one link has to cross.
    CHECK(rails.ring_crossings == (nodes % 2 == 0 ? 0 : 4));
  }
  // The search repeats what it found, so an odd number puts mirrored rings apart: 0, 1, x, 0, 1, x
  // with x from 2 to 3. Both pairs are found, and x crosses on its 2 links in each of its 4 copies.
  NodeChannel odd = node.ring_channels[0];
  odd.in = 2;
  odd.out = 3;
  const std::vector<NodeChannel> three = {node.ring_channels[0], node.ring_channels[1], odd};
  node.ring_channels = three;
  node.ring_channels.insert(node.ring_channels.end(), three.begin(), three.end());
  node.tree_channels.resize(6, node.tree_channels[0]);
  node.ring.channels = node.tree.channels = 6;
  const Cluster repeated = joined({node}, equal_nodes(2));
  REQUIRE(check_cluster(repeated).ok());
  REQUIRE(repeated.channels() == 12);
  CHECK(rail_use(repeated).ring_crossings == 2 * 4);
  for (const int channel : {0, 1, 3, 4})
    CHECK(net_use(repeated, channel, 0).ring_out == net_use(repeated, channel, 1).ring_in);
  // One ring alone has nothing to change places with.
  node.ring.channels = node.tree.channels = 1;
  node.ring_channels.resize(1);
  CHECK(rail_use(joined({node}, equal_nodes(2))).ring_crossings == 4);
}

TEST_CASE("tree NICs: the first GPU has the channel's first, the second its second", "[cluster]") {
  ClusterNode node = rail_node(4, 1);
  node.tree_channels[0].in = 2;
  node.tree_channels[0].out = 3;
  // Tree 0 of four nodes: 2 below 0, 1 and 3 below 2.
  const Cluster cluster = joined({node}, equal_nodes(4));
  const NetUse root = net_use(cluster, 0, 0), inner = net_use(cluster, 0, 2);
  const NetUse leaf = net_use(cluster, 0, 1);
  CHECK(root.tree_up == -1);
  CHECK(root.tree_down[0] == -1);
  CHECK(root.tree_down[1] == 2);
  CHECK(inner.tree_up == 2);
  CHECK(inner.tree_down[0] == 3);
  CHECK(inner.tree_down[1] == 2);
  CHECK(leaf.tree_up == 2);
  CHECK(leaf.tree_down[0] == -1);
  CHECK(leaf.tree_down[1] == -1);
  // Node 1 sends by 2 and arrives at 3; the other two links stay on 2. Tree 1 (channel 1) the same.
  CHECK(rail_use(cluster).tree_crossings == 2);
  CHECK(net_use(joined({node}, equal_nodes(1)), 0, 0).ring_in == -1);
}

TEST_CASE("how many channels", "[cluster]") {
  const auto count = [](const ClusterNode& node, int nodes, const ClusterOptions& options = {}) {
    return joined({node}, equal_nodes(nodes), options).channels();
  };
  CHECK(count(rail_node(8, 12), 1) == 24);
  CHECK(count(rail_node(8, 40), 1) == 64);  // the cap
  // SM 90, several nodes, more than 45 GB/s per channel, 2 x 4 < 16: doubled again.
  ClusterNode hopper = rail_node(8, 4);
  hopper.min_sm = hopper.max_sm = 90;
  hopper.ring.bw_intra = 48;
  CHECK(count(hopper, 2) == 16);
  CHECK(count(hopper, 1) == 8);
  hopper.ring.bw_intra = 45;
  CHECK(count(hopper, 2) == 8);
  // Not where there are 16 already; one less than that is doubled.
  ClusterNode full = rail_node(8, 8), less = rail_node(8, 7);
  for (ClusterNode* node : {&full, &less}) {
    node->min_sm = node->max_sm = 90;
    node->ring.bw_intra = 48;
  }
  CHECK(count(full, 2) == 16);
  CHECK(count(less, 2) == 28);
  hopper.ring.bw_intra = 48;
  hopper.min_sm = 80;
  CHECK(count(hopper, 2) == 8);
  CHECK(count(rail_node(8, 8), 2) == 16);
  // Fewer channels than the node's graph, then more: the first ones repeat.
  const Cluster few = joined({rail_node(4, 4)}, equal_nodes(2), {.max_channels = 3});
  REQUIRE(few.channels() == 3);
  const Cluster more =
      joined({rail_node(4, 4)}, equal_nodes(2), {.min_channels = 7, .max_channels = 3});
  REQUIRE(more.channels() == 7);
  for (int c = 0; c < 7; ++c) {
    CHECK(more.rings[size_t(c)] == few.rings[size_t(c % 3)]);
    CHECK(net_use(more, c, 1).ring_in == c % 3);
  }
  CHECK(more.full_channels == 8);
  CHECK(few.steps.size() == 2);
  CHECK(more.steps.size() == 3);
  CHECK(count(rail_node(8, 8), 2, {.min_channels = 4}) == 16);
}

TEST_CASE("different nodes: the least of all counts", "[cluster]") {
  ClusterNode slow = rail_node(4, 2, Pattern::tree), fast = rail_node(8, 6);
  slow.ring.bw_inter = slow.tree.bw_inter = 5;
  slow.ring.busiest_link = "the slow one's";
  slow.ring.type_inter = PathType::phb;
  slow.ring.same_channels = false;
  slow.min_sm = 70;
  slow.cpu = CpuMaker::amd;
  fast.ring.latency_inter_us = 3;
  const Cluster cluster = joined({fast, slow}, {0, 1, 0});
  CHECK(cluster.ranks() == 20);
  CHECK(cluster.first_rank == std::vector<int>{0, 8, 12, 20});
  CHECK(cluster.largest_node() == 8);
  CHECK(cluster.ring.channels == 2);
  CHECK(cluster.ring.bw_inter == 5);
  CHECK(cluster.ring.bw_intra == 20);
  CHECK(cluster.ring.type_inter == PathType::phb);
  CHECK(cluster.ring.busiest_link == "the slow one's");
  CHECK_FALSE(cluster.ring.same_channels);
  CHECK(cluster.ring.latency_inter_us == 3);
  CHECK(cluster.min_sm == 70);
  CHECK(cluster.max_sm == 80);
  CHECK(cluster.cpu == CpuMaker::mixed);
  CHECK(cluster.tree_pattern == Pattern::tree);
  // Ring 0: 0 7..1, then 8 11 10 9, then 12 19..13.
  CHECK(cluster.rings[0] ==
        std::vector<int>{0, 7, 6, 5, 4, 3, 2, 1, 8, 11, 10, 9, 12, 19, 18, 17, 16, 15, 14, 13});
  // A kind that no node is of has no say.
  CHECK(joined({fast, slow}, {0, 0}).ring.channels == 6);
}

TEST_CASE("what cannot be joined says why", "[cluster]") {
  const auto fails = [](const ClusterNode& node, int nodes, ErrorCode code,
                        const std::string& message) {
    const auto made = join_nodes({node}, equal_nodes(nodes), {});
    REQUIRE_FALSE(made.ok());
    CHECK(made.error().code == code);
    CHECK(made.error().message == message);
  };
  const ClusterNode good = rail_node(4, 2);
  fails(good, 0, ErrorCode::usage, "no nodes to join");
  fails(good, 4097, ErrorCode::usage, "4097 nodes: at most 4096 can be joined");
  ClusterNode node = good;
  node.ranks = 0;
  fails(node, 1, ErrorCode::unavailable, "node4: no GPU, so no rank");
  node = good;
  node.ring_channels.clear();
  fails(node, 1, ErrorCode::usage, "node4: no ring channels");
  node = good;
  node.tree_channels[1].order[2] = node.tree_channels[1].order[0];
  fails(node, 1, ErrorCode::usage, "node4: tree channel 1: it lists GPU 1 twice");
  node = good;
  node.ring_channels[0].order.pop_back();
  fails(node, 1, ErrorCode::usage, "node4: ring channel 0: it has 3 of 4 GPUs");
  node = good;
  node.ring_channels[0].order[0] = 9;
  fails(node, 1, ErrorCode::usage, "node4: ring channel 0: it lists GPU 9 of 4");
  node = good;
  node.ring_channels[1].out = 4;
  fails(node, 1, ErrorCode::usage, "node4: ring channel 1: no such network device");
  node = good;
  node.nets.clear();
  for (auto* channels : {&node.ring_channels, &node.tree_channels})
    for (NodeChannel& channel : *channels) channel.in = channel.out = -1;
  CHECK(join_nodes({node}, equal_nodes(1), {}).ok());
  fails(node, 2, ErrorCode::unavailable,
        "node4: no network device, so the nodes cannot reach each other");
  node.nets = good.nets;
  fails(node, 2, ErrorCode::unavailable, "node4: ring channel 0 has no path to a network device");
  fails(rail_node(512, 1), 513, ErrorCode::usage, "262656 ranks: at most 262144 can be joined");
}

TEST_CASE("one GPU, alone and on each of several nodes", "[cluster]") {
  const Cluster alone = joined({rail_node(1, 1, Pattern::tree)}, equal_nodes(1));
  CHECK(check_cluster(alone).ok());
  CHECK(alone.rings[0] == std::vector<int>{0});
  CHECK(alone.trees[1][0].up == -1);
  const Cluster five = joined({rail_node(1, 1)}, equal_nodes(5));
  CHECK(check_cluster(five).ok());
  CHECK(five.rings[0] == std::vector<int>{0, 1, 2, 3, 4});
}

TEST_CASE("the check finds every kind of damage", "[cluster]") {
  const Cluster good = joined({rail_node(4, 2)}, equal_nodes(3));
  REQUIRE(check_cluster(good).ok());
  const auto damaged = [&](auto damage) {
    Cluster bad = good;
    damage(bad);
    const Status status = check_cluster(bad);
    REQUIRE_FALSE(status.ok());
    CHECK(status.error().code == ErrorCode::defect);
    return status.error().message;
  };
  CHECK(damaged([](Cluster& c) { c.rings[1][3] = c.rings[1][2]; }) ==
        "channel 1: rank 2 is in the ring twice");
  CHECK(damaged([](Cluster& c) { c.rings[2].pop_back(); }) ==
        "channel 2: the ring has 11 of 12 ranks");
  CHECK(damaged([](Cluster& c) { c.rings[0][1] = 12; }) ==
        "channel 0: the ring lists rank 12 of 12");
  // 0 3 2 1 4 ...: exchanging 1 and 7 visits both nodes once more.
  CHECK(damaged([](Cluster& c) {
          std::swap(c.rings[0][2], c.rings[0][6]);
        }).find("channel 0: the ring goes from node to node") == 0);
  CHECK(damaged([](Cluster& c) {
          c.trees[0][0].down[0] = -1;
        }).find("channel 0: the tree reaches") == 0);
  CHECK(damaged([](Cluster& c) { c.trees[1][3].up = -1; }) == "channel 1: the tree has 2 roots");
  CHECK(damaged([](Cluster& c) { c.trees[3].pop_back(); }) ==
        "channel 3: the tree has 11 of 12 ranks");
  CHECK(damaged([](Cluster& c) { c.trees[0][0].down[2] = 5; }) ==
        "channel 0: rank 0 has the child 5, which has another parent");
  CHECK(damaged([](Cluster& c) {
          c.trees[0][3].down[1] = c.trees[0][3].down[0];
        }).find("channel 0: the tree reaches rank") == 0);
  CHECK(damaged([](Cluster& c) { c.trees.pop_back(); }) == "channel 0: 4 rings and 3 trees");
}

}  // namespace cluster_cluster_tests
