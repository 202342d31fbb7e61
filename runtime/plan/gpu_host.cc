// One host's GPUs as nodes of a cluster (gpu_shape.h).
#include <algorithm>
#include <set>

#include "base/env.h"
#include "base/format.h"
#include "base/log.h"
#include "base/whole_file.h"
#include "runtime/plan/gpu_shape.h"
#include "topology/detect/discover.h"
#include "topology/detect/merge.h"
#include "topology/graph/parts.h"
#include "topology/xml/graph_xml.h"
#include "topology/xml/topo_file.h"
#include "topology/xml/xml.h"

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
      return Error(ErrorCode::unavailable, gpu + " is shared by several ranks");
    if (std::none_of(gpus.begin(), gpus.end(),
                     [&](int at) { return graph.nodes[size_t(at)].id == bus_ids[i]; }))
      return Error(ErrorCode::unavailable, gpu + " was not found on the machine");
  }
  return part_of(graph, base_paths(graph, {.through_gpus = rules.nvb}), gpus);
}

Error several_groups(const std::string& file, size_t groups) {
  return {
      ErrorCode::usage,
      format("{}: the GPUs fall into {} groups, which a graph file cannot express", file, groups)};
}

// A dump is no reason not to run.
void dump(const Graph& graph, const topology::NodeGraphs& graphs, size_t groups,
          const std::string& file) {
  if (file.empty()) return;
  const Status written = groups > 1
                             ? Status(several_groups(file, groups))
                             : base::write_file_atomically(file, write_graph_xml(graph, graphs));
  if (!written) COLL_WARN("cannot dump the channels: {}", written.error().chain());
}

// The channels of a part of the machine, searched or as the user's file has them.
Result<topology::NodeGraphs> channels_of(const Graph& graph, const topology::Paths& effective,
                                         int nodes, const GpuSearch& search) {
  topology::NodeGraphs graphs =
      search_node(graph, effective, {.nodes = nodes, .cross_nic = search.cross_nic});
  if (search.graph_file.empty()) return graphs;
  // Not moved out of the result: g++ 12 then takes an absent graph for an uninitialised one.
  const auto given = topology::read_graph_xml_file(search.graph_file, graph);
  if (!given) return given.error();
  if (given->ring) graphs.ring = *given->ring;
  if (given->tree) graphs.tree = *given->tree;
  return graphs;
}

// Network devices that are on no PCI device that is seen: where they are is not known.
std::set<std::string> placeless_nets(const topology::System& system) {
  std::set<std::string> names;
  for (const topology::Cpu& cpu : system.cpus)
    for (const topology::Nic& nic : cpu.nics)
      for (const topology::Net& net : nic.nets) names.insert(net.name);
  return names;
}

Result<HostGpus> described(const topology::System& system, std::span<const int64_t> bus_ids,
                           int hosts, const GpuSearch& search, const std::string& host) {
  const Rules& rules = search.rules;
  COLL_ASSIGN(const Graph machine, graph_of_job(system, bus_ids, rules, host));
  const topology::PathOptions options{.through_gpus = rules.nvb};
  const auto paths = base_paths(machine, options);
  const auto groups = gpu_groups(machine, paths, rules);
  if (groups.size() > 1 && !search.graph_file.empty())
    return several_groups(search.graph_file, groups.size());
  HostGpus found;
  found.no_p2p = no_p2p_pairs(machine, paths, rules);
  for (const std::vector<int>& gpus : groups) {
    const Graph graph = part_of(machine, paths, gpus);
    const auto effective = effective_paths(graph, base_paths(graph, options), rules);
    COLL_ASSIGN(const auto graphs,
                channels_of(graph, effective, hosts * int(groups.size()), search));
    if (found.parts.empty()) dump(graph, graphs, groups.size(), search.dump_file);
    HostGpus::Part& part = found.parts.emplace_back();
    part.node = describe_node(graph, effective, graphs, rules, host);
    for (const int at : graph.gpus) part.ranks.push_back(graph.nodes[size_t(at)].rank);
    std::sort(part.ranks.begin(), part.ranks.end());
    part.gdr = gdr_rules(graph, rules, part.ranks, system);
  }
  return found;
}

// This machine, completed by TOPO_FILE where that is set.
Result<topology::System> this_machine() {
  topology::Reader reader = topology::live_reader();
  topology::Detected found = discover(reader);
  COLL_TRY(topology::complete_by_topo_file(found.system, found.findings));
  return std::move(found.system);
}

// GPUs of one host talk by the first transport that can; the network comes last.
Result<GpuSearch> read_search(const Settings& settings) {
  GpuSearch search;
  COLL_ASSIGN(search.rules, topology::read_rules());
  search.rules.net_intra = false;
  if (settings.transport == "shm" || settings.transport == "net") search.rules.p2p = false;
  if (settings.transport == "net") search.rules.shm = false;
  COLL_ASSIGN(const int64_t cross_nic, base::knob_int(base::KnobId::cross_nic));
  search.cross_nic = int(cross_nic);
  search.graph_file = base::knob_text(base::KnobId::graph_file);
  search.dump_file = base::knob_text(base::KnobId::graph_dump_file);
  return search;
}

HostGpus unknown_host(const Error& why) {
  HostGpus host;
  host.why_not = why.chain();
  return host;
}

HostGpus found_here(std::span<const int64_t> bus_ids, int hosts, const Settings& settings,
                    const std::string& host) {
  const auto search = read_search(settings);
  if (!search) return unknown_host(search.error());
  const auto system = this_machine();
  if (!system) return unknown_host(system.error());
  return host_gpus(*system, bus_ids, hosts, *search, host);
}

// Silent where the machine does not show itself, but not about what the user gave.
void say_why(const HostGpus& found) {
  if (found.why_not.empty()) return;
  const std::string text = format("{}: channels follow the order of ranks", found.why_not);
  const bool given = !base::knob_text(base::KnobId::graph_file).empty() ||
                     !base::knob_text(base::KnobId::topo_file).empty();
  if (given) {
    COLL_WARN("{}", text);
  } else {
    COLL_INFO(graph, "{}", text);
  }
}

}  // namespace

std::vector<std::vector<transport::NicGdr>> gdr_rules(const Graph& graph, const Rules& rules,
                                                      const std::vector<int>& ranks,
                                                      const topology::System& system) {
  const std::set<std::string> placeless = placeless_nets(system);
  const auto paths = base_paths(graph, {.through_gpus = rules.nvb});
  std::vector<std::vector<transport::NicGdr>> all(ranks.size());
  for (const int gpu : graph.gpus) {
    const topology::Node& one = graph.nodes[size_t(gpu)];
    const auto at = std::find(ranks.begin(), ranks.end(), one.rank);
    for (const int net : graph.nets) {
      Rules here = rules;
      if (!rules.gdr_level && placeless.contains(graph.nodes[size_t(net)].name))
        here.gdr_level = topology::PathType::sys;
      const auto why_not = [&](topology::Direction direction) {
        const auto decision = gdr_wanted(graph, paths, here, gpu, net, direction);
        return decision.yes ? std::string()
                            : format("{} and {}: {}", node_name(graph, gpu), node_name(graph, net),
                                     decision.why);
      };
      all[size_t(at - ranks.begin())].push_back(
          {.no_read = why_not(topology::Direction::send),
           .no_write = why_not(topology::Direction::receive),
           .flush = flush_wanted(graph, paths, gpu, net).yes ||
                    (placeless.contains(graph.nodes[size_t(net)].name) &&
                     paths.at(gpu, one.cpu).type == topology::PathType::c2c)});
    }
  }
  return all;
}

std::vector<NoP2p> no_p2p_pairs(const Graph& machine, const topology::Paths& paths,
                                const Rules& rules) {
  std::vector<NoP2p> pairs;
  for (const int one : machine.gpus)
    for (const int other : machine.gpus) {
      const int a = machine.nodes[size_t(one)].rank, b = machine.nodes[size_t(other)].rank;
      if (a >= b) continue;
      const topology::Decision decision = p2p(machine, paths, rules, one, other);
      if (!decision.yes) pairs.push_back({.a = a, .b = b, .why = decision.why});
    }
  return pairs;
}

HostGpus host_gpus(const topology::System& system, std::span<const int64_t> bus_ids, int hosts,
                   const GpuSearch& search, const std::string& host_name) {
  auto found = described(system, bus_ids, hosts, search, host_name);
  return found ? std::move(*found) : unknown_host(found.error());
}

Bytes describe_gpus(int rank, std::span<const RankFacts> all_facts, const HostGroups& hosts,
                    const Settings& settings) {
  for (const auto& host : hosts) {
    if (host.front() != rank) continue;
    std::vector<int64_t> bus_ids;
    for (const int32_t r : host) bus_ids.push_back(all_facts[size_t(r)].info.bus_id);
    const HostGpus found =
        found_here(bus_ids, int(hosts.size()), settings, all_facts[size_t(rank)].info.host);
    say_why(found);
    return found.encode();
  }
  return {};
}

}  // namespace collctl::runtime
