// Nodes joined into one job: the rings over all ranks, a double binary tree between nodes with a
// chain inside each (two trees, half of the channels each), how many channels there are, and which
// network device each channel uses on each node. Nodes may differ: what all can do counts.
// Made by `plan` from one node's graphs, and by the start of GPU ranks from what the nodes told
// each other. Pure; threads: values.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "topology/graph/decide.h"
#include "topology/search/search.h"

namespace collctl::topology {

enum class CpuMaker : uint8_t { intel, amd, mixed, other };

// Rings or trees of one node, or of all nodes together (the least of them).
struct PatternFacts {
  int channels = 0;                   // of the search: each is used twice
  double bw_intra = 0, bw_inter = 0;  // GB/s (1e9) of one channel
  PathType type_intra = PathType::loc, type_inter = PathType::loc;
  bool same_channels = true;
  int cross_nic = 0;
  double latency_inter_us = 0;
  std::string busiest_link;  // in words: the link that these channels fill most
  // In words: what is not known, so that a bandwidth is only assumed; empty: nothing.
  std::string unknown = {};
};

// A search channel in the node's own numbers.
struct NodeChannel {
  std::vector<int> order;  // 0..ranks-1, in the order of the chain
  int in = -1, out = -1;   // index of a network device in ClusterNode::nets
};

// One node's description for the others.
struct ClusterNode {
  std::string name;  // host or file, for messages
  int ranks = 0;
  int min_sm = 0, max_sm = 0;  // compute capability x 10; 0: unknown
  uint32_t gpu_model = 0;      // PCI vendor and device of the first; 0: unknown
  bool amd_gpus = false;
  CpuMaker cpu = CpuMaker::other;
  Pattern tree_pattern = Pattern::tree;
  PatternFacts ring, tree;
  double host_gbps = 0;  // of each GPU through its host's memory (host_memory_gbps)
  // collnet: empty where no device is known to reduce.
  std::vector<NodeChannel> ring_channels, tree_channels, collnet_channels;
  std::vector<std::string> nets;  // "NET/0 mlx5_0", in the order of Graph::nets
  // By rank: the devices with the best path to its GPU, all of them, so ordered that GPUs which
  // share devices begin with different ones; empty: none can be reached.
  std::vector<std::vector<int>> near;
  // By rank and device: the rank whose GPU sends there what this one has to send (PXN); -1: none.
  std::vector<std::vector<int>> relay;
  // By rank and device: the rank by which its messages leave there for a GPU of that rail
  // (rail_senders); empty: as all -1.
  std::vector<std::vector<int>> rail_senders;
  bool pxn_asked = false;                    // for the relays among them by name
  std::vector<std::vector<int>> near_ranks;  // the other way round: by device the nearest GPUs
};
// `effective`: of effective_paths. Local ranks count the GPUs by their rank.
ClusterNode describe_node(const Graph& graph, const Paths& effective, const NodeGraphs& graphs,
                          const Rules& rules, const std::string& name);

struct TreePlace {  // ranks; -1: none; children from the front
  int up = -1;
  int down[3] = {-1, -1, -1};
};

struct Cluster {
  std::vector<ClusterNode> kinds;
  std::vector<int> kind_of;     // by node: index of `kinds`
  std::vector<int> first_rank;  // by node, and the number of ranks at the end
  PatternFacts ring, tree;      // what all nodes can do
  Pattern tree_pattern = Pattern::tree;
  int min_sm = 0, max_sm = 0;
  uint32_t gpu_model = 0;  // of the first node
  bool amd_gpus = false;
  CpuMaker cpu = CpuMaker::other;
  int full_channels = 0;           // as the nodes' graphs have it, before any limit
  int distinct_channels = 0;       // after the maximum; further ones repeat them
  std::vector<std::string> steps;  // how the number of channels was found
  // By kind and channel of the search: which one odd nodes take in its place.
  std::vector<std::vector<int>> partners;
  std::vector<std::vector<int>> rings;        // by channel: ranks, from rank 0
  std::vector<std::vector<TreePlace>> trees;  // by channel and rank

  int nodes() const { return int(kind_of.size()); }
  int ranks() const { return first_rank.back(); }
  int channels() const { return int(rings.size()); }
  const ClusterNode& node(int index) const { return kinds[size_t(kind_of[size_t(index)])]; }
  int node_of(int rank) const;
  int largest_node() const;  // ranks
};

inline constexpr int kMaxClusterChannels = 64;
inline constexpr int kMaxClusterNodes = 4096;
inline constexpr int kMaxClusterRanks = 1 << 18;

struct ClusterOptions {
  int min_channels = 0, max_channels = 0;  // 0: as found; first the most, then the least
};

// Errors: usage: nothing to join, more than the limits, a channel that is no order of its node's
// GPUs; unavailable: several nodes, and one has no path to the network.
Result<Cluster> join_nodes(std::vector<ClusterNode> kinds, std::vector<int> kind_of,
                           const ClusterOptions& options);

// Every ring is one closed loop over all ranks that enters each node once, every tree reaches every
// rank once, and both ends of each link agree. An error (defect) names channel and rank.
Status check_cluster(const Cluster& cluster);

// How a node takes part in a channel's tree, whether or not it has a parent and children there.
struct TreeChain {
  int tree = 0;             // 0 or 1 of the double binary tree
  std::vector<int> ranks;   // the chain; the first has the parent
  int child[2] = {-1, -1};  // ranks that the lower and the upper child of the node hang on
  int parent_net = -1, child_net[2] = {-1, -1};  // devices (indexes of ClusterNode::nets)
};
TreeChain tree_chain(const Cluster& cluster, int channel, int node);

// Network devices (indexes of ClusterNode::nets; -1: none) of a channel on a node.
struct NetUse {
  int ring_in = -1, ring_out = -1;
  int tree_up = -1, tree_down[2] = {-1, -1};  // to the parent; to the lower and the upper child
};
NetUse net_use(const Cluster& cluster, int channel, int node);

// Links between nodes, and those of them whose two ends are different devices: they cross rails.
// Means something only where all nodes have the same devices.
struct RailUse {
  int64_t ring_links = 0, ring_crossings = 0, tree_links = 0, tree_crossings = 0;
};
RailUse rail_use(const Cluster& cluster);

}  // namespace collctl::topology
