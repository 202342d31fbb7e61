// Nodes for clusters, written by hand: what the search would say of them is given, not searched.
#pragma once
#include <numeric>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "topology/cluster/cluster.h"

// A node of `ranks` GPUs and as many NICs with `channels` channels: channel c begins at GPU c (mod
// ranks), counts downward as rings behind an NVSwitch do, and enters and leaves by that GPU's NIC.
inline collctl::topology::ClusterNode rail_node(
    int ranks, int channels,
    collctl::topology::Pattern tree = collctl::topology::Pattern::balanced_tree) {
  using namespace collctl::topology;
  ClusterNode node;
  node.name = "node" + std::to_string(ranks);
  node.ranks = ranks;
  node.min_sm = node.max_sm = 80;
  node.cpu = CpuMaker::intel;
  node.tree_pattern = tree;
  node.ring = {.channels = channels,
               .bw_intra = 20,
               .bw_inter = 20,
               .type_intra = PathType::nvl,
               .type_inter = PathType::pix,
               .busiest_link = "a link"};
  node.tree = node.ring;
  for (int g = 0; g < ranks; ++g) {
    node.nets.push_back("NET/" + std::to_string(g));
    node.near.push_back({g});
  }
  for (int c = 0; c < channels; ++c) {
    NodeChannel channel{{}, c % ranks, c % ranks};
    for (int i = 0; i < ranks; ++i) channel.order.push_back((c % ranks + ranks - i) % ranks);
    node.ring_channels.push_back(channel);
    node.tree_channels.push_back(channel);
  }
  return node;
}

inline collctl::topology::Cluster joined(std::vector<collctl::topology::ClusterNode> kinds,
                                         std::vector<int> kind_of,
                                         const collctl::topology::ClusterOptions& options = {}) {
  auto cluster = collctl::topology::join_nodes(std::move(kinds), std::move(kind_of), options);
  if (!cluster.ok()) FAIL(cluster.error().message);
  return std::move(*cluster);
}

inline std::vector<int> equal_nodes(int count) {
  return std::vector<int>(size_t(count), 0);
}
