// The network plugin that a job on this machine would use: a plan of several nodes loads the one
// that is named, to say what it is and whether its network reduces (CollNet), which the plan then
// weighs. Threads: values.
#pragma once
#include <optional>
#include <string>

#include "base/json_writer.h"
#include "base/result.h"
#include "runtime/plan/network_reduction.h"

namespace collctl::cmd {

struct PlanNetwork {
  std::string network;                  // of the plugin, as in --net
  std::string library;                  // as it was opened
  std::string devices;                  // "wire0 (10000 Mb/s), ..., version 12 of libnccl-net-x.so"
  std::string why_no_plugin;            // it was named and cannot be used; the two above are empty
  std::string why_no_reducer;           // empty: its network reduces
  uint64_t serves = 0, most_bytes = 0;  // as in RankFacts
};

// `net` as --net, empty: by COLLCTL_NET. Nothing: no plugin is named. Errors: usage: a knob's
// value.
Result<std::optional<PlanNetwork>> find_plan_network(const std::string& net);

// In-network reduction in the plan of a job on these hosts.
runtime::NetworkReduction plan_reduction(const std::optional<PlanNetwork>& plugin,
                                         const runtime::HostGroups& hosts,
                                         std::span<const runtime::ChannelShape> channels,
                                         const runtime::Settings& settings);

std::string plan_network_text(const std::optional<PlanNetwork>& plugin);  // a line, or nothing
void write_plan_network(const std::optional<PlanNetwork>& plugin, JsonWriter& json);

}  // namespace collctl::cmd
