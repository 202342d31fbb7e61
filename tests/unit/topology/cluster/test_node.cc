// The summary of itself that a node sends to the others, from a small machine whose channels are
// written by hand, and which link they fill most.
#include "tests/unit/topology/machine.h"
#include "topology/cluster/cluster.h"
#include "topology/cluster/load.h"

namespace cluster_node_tests {

using namespace collctl;
using namespace collctl::topology;

namespace {

// Two GPUs (ranks 1 and 0: not in dev order) with 4 NVLinks, each below one switch with a NIC of
// 100 Gb/s: NVLink 4 x 20 = 80 GB/s, PCI 24 GB/s (gen4 x16), NIC 12.5 GB/s.
Machine two_gpus() {
  const auto one = [](int dev, int rank, const std::string& bus, const std::string& other) {
    const std::string d = std::to_string(dev);
    return device(bus + "0",
                  device(bus + "1", "<gpu dev=\"" + d + "\" rank=\"" + std::to_string(rank) +
                                        "\" sm=\"80\" gdr=\"1\">" + nvlink(other, 4) + "</gpu>") +
                      device(bus + "2", "<nic><net name=\"m" + d + "\" dev=\"" + d +
                                            "\" speed=\"100000\" port=\"1\" guid=\"0x" + d +
                                            "\" gdr=\"1\"/></nic>"));
  };
  return parse(chip(one(0, 1, "1", "21") + one(1, 0, "2", "11")));
}

NodeGraphs graphs_of(const Machine& m, bool several) {
  NodeGraphs graphs;
  graphs.ring.bw_intra = graphs.ring.bw_inter = 12;
  graphs.ring.type_intra = PathType::nvl;
  graphs.ring.channels = {{{m.gpu(0), m.gpu(1)}, m.net(0), m.net(1)}};
  if (!several) graphs.ring.channels[0].net_in = graphs.ring.channels[0].net_out = -1;
  graphs.tree = graphs.ring;
  graphs.tree.pattern = Pattern::balanced_tree;
  return graphs;
}

}  // namespace

TEST_CASE("a node's channels in its own numbers", "[cluster]") {
  const Machine m = two_gpus();
  const ClusterNode node = describe_node(m.graph, m.paths, graphs_of(m, true), {}, "f.xml");
  CHECK(node.name == "f.xml");
  CHECK(node.ranks == 2);
  CHECK(node.min_sm == 80);
  CHECK(node.cpu == CpuMaker::intel);
  CHECK_FALSE(node.amd_gpus);
  CHECK(node.tree_pattern == Pattern::balanced_tree);
  REQUIRE(node.ring_channels.size() == 1);
  // GPU 0 has rank 1, GPU 1 rank 0.
  CHECK(node.ring_channels[0].order == std::vector<int>{1, 0});
  CHECK(node.ring_channels[0].in == 0);
  CHECK(node.ring_channels[0].out == 1);
  CHECK(node.nets == std::vector<std::string>{"NET/0 m0", "NET/1 m1"});
  CHECK(node.ring.channels == 1);
  CHECK(node.ring.type_intra == PathType::nvl);
}

TEST_CASE("the link that channels fill most", "[cluster]") {
  const Machine m = two_gpus();
  const auto busiest = [&](const ChannelGraph& channels) {
    return busiest_link(m.graph, m.paths, channels);
  };
  NodeGraphs graphs = graphs_of(m, true);
  // A ring of 12: NIC 12 of 12.5 (96 %), PCI 12 of 24, NVLink 12 of 80.
  const LinkLoad ring = busiest(graphs.ring);
  CHECK(ring.kind == LinkKind::net);
  CHECK(ring.gbps == Approx(12.5));
  CHECK(ring.used_gbps == Approx(12));
  CHECK(load_text(m.graph, ring).find("(NET, 12.5 GB/s, 12 used)") != std::string::npos);
  // Trees: up and down at half of a channel's bandwidth, a quarter (3) a tree. Out of 12 to the
  // network each GPU's NIC has its two parents' links, 6, and the children there: both on the first
  // in a plain tree, one in a balanced one, none in a split one. NVLink: 30 of 80 (37.5 %).
  graphs.tree.bw_intra = 60;
  const auto network_part = [&](Pattern pattern) {
    graphs.tree.pattern = pattern;
    const LinkLoad load = busiest(graphs.tree);
    CHECK(load.kind == LinkKind::net);
    return load.used_gbps;
  };
  CHECK(network_part(Pattern::tree) == Approx(12));
  CHECK(network_part(Pattern::balanced_tree) == Approx(9));
  CHECK(network_part(Pattern::split_tree) == Approx(6));
  // 160 in the node: 80 of 80.
  graphs.tree.bw_intra = 160;
  CHECK(busiest(graphs.tree).kind == LinkKind::nvl);
  CHECK(busiest(graphs.tree).used_gbps == Approx(80));
  // On one node a ring closes over NVLink: 12 each way.
  const LinkLoad closed = busiest(graphs_of(m, false).ring);
  CHECK(closed.kind == LinkKind::nvl);
  CHECK(closed.used_gbps == Approx(12));
  CHECK(load_text(m.graph, busiest(ChannelGraph{})) == "");
}

}  // namespace cluster_node_tests
