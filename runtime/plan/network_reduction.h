// In-network reduction between hosts (a plugin's CollNet, transport/net/plugin/reducer.h):
// from what all ranks report of their plugins, the chains inside the hosts and their heads. Pure;
// the same on every rank except for its own places. Called at start-up of a communicator.
// Threads: any.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "runtime/plan/operation.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/rank_facts.h"
#include "runtime/plan/shape.h"
#include "runtime/request/settings.h"

namespace collctl::runtime {

// A group of the network is a thing of switches, of which there are few: channels that have one.
inline constexpr int kMostReductionGroups = 4;

// Where no search says it: in the order of ranks, heads rotate with the channels, so that each has
// its own share of a host's NICs.
Chains chains_in_order(const HostGroups& hosts, int channel);
std::vector<int32_t> chain_heads(const Chains& chains);
// A rank's place in its chain: up is the rank before it, of the head itself.
kernels::TreeLinks chain_links(const Chains& chains, int32_t rank);

// For the first of `channels`. `all_facts` are checked.
NetworkReduction join_reducers(int rank, std::span<const RankFacts> all_facts,
                               const HostGroups& hosts, std::span<const ChannelShape> channels,
                               const Settings& settings);

// Empty, or why there is no in-network reduction of this.
std::string network_refusal(const Operation& operation, const CommShape& shape);

}  // namespace collctl::runtime
