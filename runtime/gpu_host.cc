// One host's GPUs as nodes of a cluster (gpu_shape.h).
#include <algorithm>

#include "base/env.h"
#include "base/format.h"
#include "base/log.h"
#include "runtime/gpu_shape.h"
#include "topology/discover.h"
#include "topology/graph_parts.h"
#include "topology/merge.h"
#include "topology/xml.h"

namespace collctl::runtime {
namespace {

using topology::Graph;
using topology::Rules;

// The graph with the job's GPUs only, ranks counted as on this host.
Result<Graph> graph_of_job(const topology::System& system, std::span<const int64_t> bus_ids,
                           const Rules& rules, const std::string& host) {
  COLL_ASSIGN(Graph graph, make_graph(system, host));
  std::vector<int> gpus;
  for (const int at : graph.gpus) {
    topology::Node& node = graph.nodes[size_t(at)];
    const auto found = std::find(bus_ids.begin(), bus_ids.end(), node.id);
    if (found == bus_ids.end()) continue;
    node.rank = int(found - bus_ids.begin());
    gpus.push_back(at);
  }
  for (size_t i = 0; i < bus_ids.size(); ++i) {
    const std::string gpu = "GPU " + topology::bus_id_text({bus_ids[i]});
    if (std::count(bus_ids.begin(), bus_ids.end(), bus_ids[i]) > 1)
      return Error(ErrorCode::unavailable, gpu + " is several ranks'");
    if (std::none_of(gpus.begin(), gpus.end(),
                     [&](int at) { return graph.nodes[size_t(at)].id == bus_ids[i]; }))
      return Error(ErrorCode::unavailable, gpu + " was not found on the machine");
  }
  return part_of(graph, base_paths(graph, {.through_gpus = rules.nvb}), gpus);
}

HostGpus::Part part_with(const Graph& machine, const topology::Paths& machine_paths,
                         const std::vector<int>& gpus, int nodes, const Rules& rules,
                         const std::string& host) {
  const Graph graph = part_of(machine, machine_paths, gpus);
  const auto paths = base_paths(graph, {.through_gpus = rules.nvb});
  const auto effective = effective_paths(graph, paths, rules);
  const auto graphs = search_node(graph, effective, {.nodes = nodes});
  HostGpus::Part part{.node = describe_node(graph, effective, graphs, host), .ranks = {}};
  for (const int at : graph.gpus) part.ranks.push_back(graph.nodes[size_t(at)].rank);
  std::sort(part.ranks.begin(), part.ranks.end());
  return part;
}

Result<HostGpus> described(const topology::System& system, std::span<const int64_t> bus_ids,
                           int hosts, const Rules& rules, const std::string& host) {
  COLL_ASSIGN(const Graph graph, graph_of_job(system, bus_ids, rules, host));
  const auto paths = base_paths(graph, {.through_gpus = rules.nvb});
  const auto groups = gpu_groups(graph, paths, rules);
  HostGpus found;
  for (const std::vector<int>& gpus : groups)
    found.parts.push_back(part_with(graph, paths, gpus, hosts * int(groups.size()), rules, host));
  return found;
}

// This machine, completed by TOPO_FILE where that is set.
Result<topology::System> this_machine() {
  topology::Reader reader = topology::live_reader();
  topology::Detected found = discover(reader);
  const base::KnobValue file = base::knob_value(base::KnobId::topo_file);
  if (file.text.empty()) return std::move(found.system);
  auto read = topology::read_xml_file(file.text);
  if (!read) return std::move(read.error()).within(file.origin);
  return merge(read->system, found.system, file.text).system;
}

// GPUs of one host talk by the first transport that can; the network comes last.
Result<Rules> rules_of(const Settings& settings) {
  COLL_ASSIGN(Rules rules, topology::read_rules());
  rules.net_intra = false;
  if (settings.transport == "shm" || settings.transport == "net") rules.p2p = false;
  if (settings.transport == "net") rules.shm = false;
  return rules;
}

HostGpus found_here(std::span<const int64_t> bus_ids, int hosts, const Settings& settings,
                    const std::string& host) {
  HostGpus none;
  const auto rules = rules_of(settings);
  if (!rules) {
    none.why_not = rules.error().message;
    return none;
  }
  const auto system = this_machine();
  if (!system) {
    none.why_not = system.error().chain();
    return none;
  }
  return host_gpus(*system, bus_ids, hosts, *rules, host);
}

}  // namespace

HostGpus host_gpus(const topology::System& system, std::span<const int64_t> bus_ids, int hosts,
                   const Rules& rules, const std::string& host_name) {
  auto found = described(system, bus_ids, hosts, rules, host_name);
  if (found) return std::move(*found);
  HostGpus none;
  none.why_not = found.error().message;
  return none;
}

Bytes describe_gpus(int rank, std::span<const RankCard> cards, const HostGroups& hosts,
                    const Settings& settings) {
  for (const auto& host : hosts) {
    if (host.front() != rank) continue;
    std::vector<int64_t> bus_ids;
    for (const int32_t r : host) bus_ids.push_back(cards[size_t(r)].info.bus_id);
    const HostGpus found =
        found_here(bus_ids, int(hosts.size()), settings, cards[size_t(rank)].info.host);
    if (!found.why_not.empty())
      COLL_INFO(graph, "{}: channels go in the order of ranks", found.why_not);
    return found.encode();
  }
  return {};
}

}  // namespace collctl::runtime
