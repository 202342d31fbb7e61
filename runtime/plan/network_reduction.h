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

// The head of each host in a channel, in the order of hosts: heads rotate with the channels, so
// that each has its own share of a host's NICs.
std::vector<int32_t> chain_heads(const HostGroups& hosts, int channel);
// A rank's place in the chain of its host: up is the rank before it, of the head itself.
kernels::TreeLinks chain_links(const HostGroups& hosts, int32_t rank, int channel);

// For at most `channels` channels. `all_facts` are checked.
NetworkReduction join_reducers(int rank, std::span<const RankFacts> all_facts,
                               const HostGroups& hosts, int channels, const Settings& settings);

// Empty, or why there is no in-network reduction of this.
std::string network_refusal(const Operation& operation, const CommShape& shape);

}  // namespace collctl::runtime
