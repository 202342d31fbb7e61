// Which network device each link of one rank uses on that rank's node: what `plan` shows and what a
// run connects are both this. Pure; threads: values.
#pragma once
#include <optional>
#include <vector>

#include "topology/cluster/cluster.h"

namespace collctl::topology {

// Devices are indexes of ClusterNode::nets; -1: that link stays inside the node, or is not there.
// A channel's chain through a node for in-network reduction (CollNet): ranks, of which the first,
// the head, reaches the network by a device (index of ClusterNode::nets). The search's for it;
// where there is none, as plugins alone know which devices reduce, the tree's and its device,
// turned round to the first that is nearest to it.
struct CollNetChain {
  std::vector<int> ranks;
  int net = -1;
};
CollNetChain collnet_chain(const Cluster& cluster, int channel, int node);

// By what a message, or all-to-all's data, leaves its node. The other end receives at a device near
// its GPU, and where it may the sender uses the same one of its own node: both are of one rail.
struct PairLink {
  int device = -1;     // of the sender's node
  int by = -1;         // the rank whose GPU sends it for the sender (PXN); -1: none
  bool asked = false;  // for `by`, by name
};
// From a rank to the GPU with this place in any other node: channels take them in turn. Empty: no
// device can be reached.
std::vector<PairLink> pair_links(const Cluster& cluster, int from, int to_place);

struct RankWiring {
  struct Channel {
    int ring_in = -1, ring_out = -1;                // from the rank before in the ring; to the next
    int tree_up = -1, tree_down[3] = {-1, -1, -1};  // as TreePlace has them
    int collnet = -1;                               // of a head
  };
  std::vector<Channel> channels;
  // For what no ring or tree carries (messages, all-to-all, one-sided operations): the devices
  // nearest to this rank's GPU, all as good as each other. Channels and peers take them in turn.
  std::vector<int> near;
};
RankWiring wiring_of(const Cluster& cluster, int rank);

// A link of a ring or tree that leaves its node through another GPU than the sender's (PXN).
struct RelayedLink {
  int channel = 0, from = 0, to = 0;
  int by = 0;      // the rank of the sender's node that is next to
  int device = 0;  // of ClusterNode::nets there
};
// Each link once, by channel. Where a ring and a tree both have it, it is the ring's. With a rank
// only those that leave its node or lead to it.
std::vector<RelayedLink> relayed_links(const Cluster& cluster, std::optional<int> rank = {});

}  // namespace collctl::topology
