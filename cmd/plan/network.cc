#include "cmd/plan/network.h"

#include "base/env.h"
#include "base/format.h"
#include "transport/table/nets.h"

namespace collctl::cmd {

Result<std::optional<PlanNetwork>> find_plan_network(const std::string& net) {
  const std::string wanted = net.empty() ? base::knob_text(base::KnobId::net) : net;
  const std::string library = base::knob_text(base::KnobId::net_plugin);
  const bool own = wanted == "ib" || wanted == "socket";
  if (own || (wanted.empty() && (library.empty() || library == "none")))
    return std::optional<PlanNetwork>();
  PlanNetwork found;
  auto networks = transport::find_networks(wanted);
  if (!networks) {
    if (networks.error().code == ErrorCode::usage) return std::move(networks.error());
    found.why_no_plugin = networks.error().chain();
  } else {
    const transport::NetPlugin& plugin = *networks->plugin;
    found.network = networks->network;
    found.devices = networks->devices;
    found.library = plugin.entry().library;
    found.why_no_reducer = plugin.why_no_reducer();
    if (plugin.reducer() != nullptr) {
      found.serves = plugin.reductions();
      found.most_bytes = plugin.most_reduced_bytes();
    }
  }
  return std::optional(std::move(found));
}

// By the rules of a communicator, as if every rank had this plugin.
runtime::NetworkReduction plan_reduction(const std::optional<PlanNetwork>& plugin,
                                         const runtime::HostGroups& hosts,
                                         std::span<const runtime::ChannelShape> channels,
                                         const runtime::Settings& settings) {
  runtime::NetworkReduction none;
  none.why_not = "no network plugin is named (COLLCTL_NET_PLUGIN)";
  if (!plugin) return none;
  none.why_not = plugin->network.empty() ? plugin->why_no_plugin : plugin->why_no_reducer;
  if (plugin->serves == 0) return none;
  runtime::RankFacts facts{};
  facts.info.nets = transport::kNetPlugin | transport::kNetCollNet;
  facts.reducer = {.name_hash = 1, .serves = plugin->serves, .most_bytes = plugin->most_bytes};
  size_t ranks = 0;
  for (const auto& host : hosts) ranks += host.size();
  std::vector<runtime::RankFacts> all_facts(ranks, facts);
  for (size_t rank = 0; rank < ranks; ++rank) all_facts[rank].info.rank = int32_t(rank);
  return runtime::join_reducers(0, all_facts, hosts, channels, settings);
}

std::string plan_network_text(const std::optional<PlanNetwork>& plugin) {
  if (!plugin) return "";
  if (plugin->network.empty())
    return format("# network plugin: none, the plan is without it: {}\n", plugin->why_no_plugin);
  return format("# network plugin: {}: {}; {}\n", plugin->network, plugin->devices,
                plugin->serves != 0 ? "it reduces (collnet)"
                                    : "it does not reduce: " + plugin->why_no_reducer);
}

void write_plan_network(const std::optional<PlanNetwork>& plugin, JsonWriter& json) {
  if (!plugin) return;
  json.key("network_plugin").begin_object().field("used", !plugin->network.empty());
  if (plugin->network.empty()) {
    json.field("why_not", plugin->why_no_plugin).end_object();
    return;
  }
  json.field("name", plugin->network).field("devices", plugin->devices);
  json.field("reduces", plugin->serves != 0);
  if (plugin->serves == 0) json.field("why_it_does_not", plugin->why_no_reducer);
  json.end_object();
}

}  // namespace collctl::cmd
