// Shapes: in which order ranks stand in a ring, and who is whose parent in a tree. Pure functions
// from values to values, called by the communicator at start-up and by tests. Ring: ranks of one
// host stand next to each other, so that only one link enters and one leaves a host.
//
// Tree between hosts: the double binary tree of NCCL (topology/cluster/double_tree.h): tree 0
// and tree 1 together use every host's links evenly, since inner places of one are leaves of the
// other. Inside a host: `chain` (NCCL's form, right where neighbours have the fastest links)
// or `binary`, which we take for CPU ranks: all local pairs cost the same through shared memory,
// so the short tree (log2 n levels instead of n - 1) is never worse.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/plan/plan.h"
#include "topology/cluster/double_tree.h"

namespace collctl::runtime {

enum class LocalTree : uint8_t { chain, binary };

// Ranks of every host, in the order in which rings and trees take them; hosts ordered by their
// lowest rank. group_by_host gives ascending ranks; hashes[r] is rank r's host.
using HostGroups = std::vector<std::vector<int32_t>>;
HostGroups group_by_host(std::span<const uint64_t> hashes);

using topology::BinaryPlace;
using topology::double_binary_tree;

kernels::TreeLinks tree_links(const HostGroups& hosts, int32_t rank, int tree, LocalTree local);
// Levels below the root: ceil(log2 hosts) plus what lies inside the largest host.
int tree_depth(const HostGroups& hosts, LocalTree local);

std::vector<int32_t> ring_order(const HostGroups& hosts);
// Even channels use tree 0, odd ones tree 1: stable when channels are added later.
std::vector<ChannelShape> make_channels(const HostGroups& hosts, int32_t rank, int channels,
                                        LocalTree local);

}  // namespace collctl::runtime
