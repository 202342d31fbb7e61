#include "runtime/plan/network_reduction.h"

#include <algorithm>

#include "base/format.h"
#include "transport/edge.h"
#include "transport/table/nets.h"

namespace collctl::runtime {
namespace {

// A group of the network is a thing of switches, of which there are few.
constexpr int kMostGroups = 4;

size_t head_of(const std::vector<int32_t>& host, int channel) {
  return size_t(channel) % host.size();
}

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

std::vector<int32_t> chain_heads(const HostGroups& hosts, int channel) {
  std::vector<int32_t> heads;
  for (const auto& host : hosts) heads.push_back(host[head_of(host, channel)]);
  return heads;
}

kernels::TreeLinks chain_links(const HostGroups& hosts, int32_t rank, int channel) {
  kernels::TreeLinks links = {rank, {-1, -1, -1}};
  for (const auto& host : hosts) {
    const auto found = std::find(host.begin(), host.end(), rank);
    if (found == host.end()) continue;
    const size_t n = host.size(), at = size_t(found - host.begin()), head = head_of(host, channel);
    if (at != head) links.up = host[(at + n - 1) % n];
    if ((at + 1) % n != head) links.down[0] = host[(at + 1) % n];
  }
  return links;
}

NetworkReduction join_reducers(int rank, std::span<const RankFacts> all_facts,
                               const HostGroups& hosts, int channels, const Settings& settings) {
  NetworkReduction network;
  network.why_not = why_none(all_facts, hosts, settings);
  if (!network.why_not.empty()) return network;
  network.serves = ~uint64_t{0};
  for (const RankFacts& facts : all_facts) network.serves &= facts.reducer.serves;
  if (network.serves == 0) network.why_not = "the plugins of all ranks have no reduction in common";
  if (network.serves == 0) return network;
  for (const auto& host : hosts)
    network.longest_chain = std::max(network.longest_chain, int(host.size()));
  for (int c = 0; c < std::min(channels, kMostGroups); ++c)
    network.chains.push_back(chain_links(hosts, rank, c));
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
