// Shapes: in which order ranks stand in a ring, and who is whose parent in a tree. Pure functions
// from values to values, called by the communicator at start-up and by tests. Ring: ranks of one
// host stand next to each other, so that only one link enters and one leaves a host.
//
// Tree between hosts: the double binary tree of the field (formulas at double_binary_tree): tree 0
// and tree 1 together use every host's links evenly, since inner places of one are leaves of the
// other. Inside a host: `chain` (the field's form, right where neighbours have the fastest links)
// or `binary`, which we take for CPU ranks: all local pairs cost the same through shared memory,
// so the short tree (log2 n levels instead of n - 1) is never worse.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/plan.h"

namespace collctl::runtime {

enum class LocalTree : uint8_t { chain, binary };

// Ranks of every host, ascending; hosts ordered by their lowest rank. hashes[r] is rank r's host.
using HostGroups = std::vector<std::vector<int32_t>>;
HostGroups group_by_host(std::span<const uint64_t> hashes);

// A place in a binary tree over positions 0..n-1; -1 for none.
struct BinaryPlace {
  int up = -1;
  int down[2] = {-1, -1};
};
// tree 0: root 0; with b = lowest set bit of p: parent (p without b) with bit 2b set, or p without
// b when that is >= n; children p - b/2 and p + b/2, the offset of the second halved while it falls
// outside. The root's one child is the highest power of two below n. tree 1: mirrored for even n,
// shifted by one for odd n. Depth ceil(log2 n).
BinaryPlace double_binary_tree(int tree, int n, int position);

kernels::TreeLinks tree_links(const HostGroups& hosts, int32_t rank, int tree, LocalTree local);
// Levels below the root: ceil(log2 hosts) plus what lies inside the largest host.
int tree_depth(const HostGroups& hosts, LocalTree local);

std::vector<int32_t> ring_order(const HostGroups& hosts);
// Even channels use tree 0, odd ones tree 1: stable when channels are added later.
std::vector<ChannelShape> make_channels(const HostGroups& hosts, int32_t rank, int channels,
                                        LocalTree local);

}  // namespace collctl::runtime
