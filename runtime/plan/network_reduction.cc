#include "runtime/plan/network_reduction.h"

#include <algorithm>

#include "base/format.h"
#include "transport/edge.h"
#include "transport/table/nets.h"

namespace collctl::runtime {
namespace {

// The first requirement of in-network reduction that does not hold for all ranks; empty: none.
std::string why_none(std::span<const RankFacts> all_facts, const HostGroups& hosts,
                     const Settings& settings) {
  if (hosts.size() < 2) return "all ranks are on one host";
  if (settings.integrity) return "its data carries no MACs, and --integrity asks for them";
  const uint32_t step = settings.slot_bytes[int(kernels::Protocol::simple)];
  for (const RankFacts& facts : all_facts) {
    const std::string who = transport::peer_text(facts.info);
    if ((facts.info.nets & transport::kNetPlugin) == 0) return who + " uses no network plugin";
    if ((facts.info.nets & transport::kNetCollNet) == 0)
      return format("the network plugin of {} has no CollNet (-v there says why)", who);
    if (facts.reducer.name_hash != all_facts[0].reducer.name_hash)
      return format("{} and {} have different network plugins",
                    transport::peer_text(all_facts[0].info), who);
    if (facts.reducer.most_bytes < step)
      return format(
          "the network plugin of {} reduces at most {} bytes at once, a step has {} (BUFFSIZE)",
          who, facts.reducer.most_bytes, step);
  }
  return {};
}

}  // namespace

Chains chains_in_order(const HostGroups& hosts, int channel) {
  Chains chains(hosts.begin(), hosts.end());
  for (auto& chain : chains)
    std::rotate(chain.begin(), chain.begin() + channel % std::ptrdiff_t(chain.size()), chain.end());
  return chains;
}

std::vector<int32_t> chain_heads(const Chains& chains) {
  std::vector<int32_t> heads;
  for (const auto& chain : chains) heads.push_back(chain.front());
  return heads;
}

kernels::TreeLinks chain_links(const Chains& chains, int32_t rank) {
  kernels::TreeLinks links = {rank, {-1, -1, -1}};
  for (const auto& chain : chains) {
    const auto found = std::find(chain.begin(), chain.end(), rank);
    if (found == chain.end()) continue;
    if (found != chain.begin()) links.up = found[-1];
    if (found + 1 != chain.end()) links.down[0] = found[1];
  }
  return links;
}

NetworkReduction join_reducers(int rank, std::span<const RankFacts> all_facts,
                               const HostGroups& hosts, std::span<const ChannelShape> channels,
                               const Settings& settings) {
  NetworkReduction network;
  network.why_not = why_none(all_facts, hosts, settings);
  if (!network.why_not.empty()) return network;
  network.serves = ~uint64_t{0};
  for (const RankFacts& facts : all_facts) network.serves &= facts.reducer.serves;
  if (network.serves == 0) network.why_not = "the plugins of all ranks have no reduction in common";
  if (network.serves == 0) return network;
  for (size_t c = 0; c < std::min(channels.size(), size_t(kMostReductionGroups)); ++c) {
    const Chains& group = network.groups.emplace_back(
        channels[c].collnet.empty() ? chains_in_order(hosts, int(c)) : channels[c].collnet);
    network.chains.push_back(chain_links(group, rank));
    for (const auto& chain : group)
      network.longest_chain = std::max(network.longest_chain, int(chain.size()));
  }
  return network;
}

std::string network_refusal(const Operation& op, const CommShape& shape) {
  if (shape.nranks == 1) return {};  // a copy
  if (shape.network.chains.empty())
    return "collnet needs in-network reduction, and there is none: " + shape.network.why_not;
  if ((shape.network.serves & transport::reduction_bit(op.type, op.op)) == 0)
    return format("the network does not support {} of {}", kernels::name_of(op.op),
                  kernels::name_of(op.type));
  return {};
}

}  // namespace collctl::runtime
