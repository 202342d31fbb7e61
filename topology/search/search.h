// Channels inside one node: how rings and trees lead through its GPUs, and by which network device
// each leaves and enters. As many and as fast as the links carry, by NCCL's order of attempts,
// so that plans agree with it. Deterministic; bounded by a number of visited nodes, never by time.
// Called by the planner of a cluster (cluster.h), `topo --graph` and `plan`. Pure; threads: any.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "topology/graph/decide.h"

namespace collctl::topology {

// How one channel reaches the network: a ring by its two ends; a tree by one GPU (tree), by the
// first two GPUs half and half (balanced), or parents by the first and children by the second
// (split).
enum class Pattern : uint8_t { ring, tree, balanced_tree, split_tree };
const char* pattern_name(Pattern pattern);  // "ring", "tree", "balanced-tree", "split-tree"

struct GraphChannel {
  std::vector<int> gpus;  // nodes of the Graph, in the order of the chain
  // Network devices (nodes of the Graph) by which it enters and leaves; -1 on a single node.
  int net_in = -1, net_out = -1;
  bool operator==(const GraphChannel&) const = default;
};

// The result of one search. bw is of one channel.
struct ChannelGraph {
  Pattern pattern = Pattern::ring;
  bool collnet = false;               // a chain whose head uses in-network reduction
  double bw_intra = 0, bw_inter = 0;  // GB/s (1e9) a channel, between GPUs and to the network
  PathType type_intra = PathType::loc, type_inter = PathType::pix;  // the worst in use
  bool same_channels = true;                                        // all channels in one order
  int cross_nic = 0;                                                // 0, 1 or 2 (SearchOptions)
  double latency_inter_us = 0;                                      // of the network devices in use
  int hops = 0;                                                     // over all channels
  std::vector<GraphChannel> channels;
  bool fallback = false;           // nothing was found: one channel in rank order at 0.1 GB/s
  int64_t visits = 0;              // what it cost
  std::vector<std::string> steps;  // what was tried and rejected, in words
};

// Senders and receivers of a channel, GPUs and network devices (nodes of the Graph), from its entry
// on; in trees the direction is towards the leaves. A channel of one GPU on a single node has none.
std::vector<std::pair<int, int>> channel_steps(Pattern pattern, const GraphChannel& channel);

struct SearchOptions {
  int nodes = 1;  // of the cluster; above 1 channels must reach the network
  int min_channels = 1, max_channels = 32;
  int cross_nic = 2;  // 0 same device in and out, 1 free, 2 where it helps
};

// The graphs of a node: the tree has exactly as many channels as the ring; collnet is empty where
// no network device has in-network reduction or there is one node. `paths` from effective_paths.
struct NodeGraphs {
  ChannelGraph ring, tree, collnet;
};
// Needs a GPU. With several nodes and no network device channels stay inside the node, as for one.
NodeGraphs search_node(const Graph& graph, const Paths& paths, const SearchOptions& options);

}  // namespace collctl::topology
