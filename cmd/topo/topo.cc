// `topo`: a machine, or those of all hosts, as a tree, a matrix, channels, a picture, JSON, XML, or
// against another one.
#include "cmd/topo/topo.h"

#include <algorithm>

#include "base/env.h"
#include "base/format.h"
#include "cmd/job/options.h"
#include "cmd/job/talk.h"
#include "cmd/judge/topology.h"
#include "cmd/judge/verdict.h"
#include "cmd/report/report.h"
#include "cmd/text/progress.h"
#include "cmd/topo/diff.h"
#include "cmd/topo/hosts.h"
#include "cmd/topo/machine_search.h"
#include "cmd/topo/picture.h"
#include "topology/xml/xml.h"

namespace collctl::cmd {
namespace {

// What is about one machine means nothing for many, and a comparison is all that --diff prints.
Status check_together(const ParsedLine& line, bool hosts) {
  const auto exclude = [&](const char* what, std::initializer_list<const char*> options) -> Status {
    const char* option = line.first_of(options);
    return option == nullptr ? Status() : usage(format("topo: {} excludes --{}", what, option));
  };
  if (hosts)
    COLL_TRY(exclude(line.has("hosts") ? "-H" : "--hostfile",
                     {"from", "assume", "assume-nic", "xml", "graph", "nodes"}));
  if (line.has("diff"))
    COLL_TRY(exclude("--diff", {"graph", "matrix", "nodes", "output", "xml", "strict"}));
  if (line.has("nodes") && !line.has("graph") && !line.has("json"))
    return Error(ErrorCode::usage, "topo: --nodes is about --graph and --json");
  const bool picture_out = line.has("output") && line.text("output") == "-";
  if (hosts && line.has("output") && line.text("output").find("%h") == std::string::npos)
    return Error(ErrorCode::usage, format("topo: -o {}: of several hosts a file each: expected %h, "
                                          "the host's name, in it",
                                          line.text("output")));
  if (line.has("output") && !picture_out && !line.text("output").ends_with(".svg"))
    return Error(ErrorCode::usage,
                 format("topo: -o {}: expected a file that ends in .svg", line.text("output")));
  if (picture_out) COLL_TRY(exclude("-o -", {"json", "matrix", "graph"}));
  for (const char* option : {"xml", "output"})
    if (line.has(option) && !(*option == 'o' && (picture_out || hosts)))
      COLL_TRY(check_writable(line.text(option)));
  return {};
}

TreeStyle style_of(const ParsedLine& line, const Console& console) {
  return {.colours = console.out_colours(), .unfold = line.has("verbose")};
}

// The channels of each part of the machine; findings go to the others.
Result<std::vector<topology::NodeGraphs>> add_channels(TopoView& view, int nodes,
                                                       const SearchSettings& settings) {
  COLL_ASSIGN(MachineChannels channels, search_machine(view, nodes, settings));
  std::vector<topology::NodeGraphs> graphs;
  for (MachinePart& part : channels.parts) graphs.push_back(std::move(part.graphs));
  view.findings.insert(view.findings.end(), channels.findings.begin(), channels.findings.end());
  return graphs;
}

int code_of(const std::vector<Finding>& findings) {
  return Verdict(findings, std::nullopt).exit_code();
}

// --strict: what is only said without it.
int strict_code(const ParsedLine& line, const TopoView& view) {
  return code_of(topology_findings(view.findings, line.has("strict")));
}

Result<int> show_hosts(const ParsedLine& line, LaunchOptions& launch, Console& console) {
  launch.talk = console_talk(console, line.has("quiet"));
  COLL_ASSIGN(std::vector<HostTopology> hosts, ask_topologies(launch));
  for (HostTopology& host : hosts) {
    if (!line.has("json") || !host.view) continue;
    // Without this host's knobs: a graph file is of one machine.
    COLL_ASSIGN(host.graphs, add_channels(*host.view, 1, {}));
  }
  if (line.has("save")) COLL_TRY(save_hosts(hosts, line.text("save")));
  if (line.has("output"))
    for (const HostTopology& host : hosts)
      if (host.view)
        COLL_TRY(write_file_atomically(file_of_host(line.text("output"), host.host.name),
                                       topo_svg(*host.view, nullptr)));
  if (line.has("diff")) {
    COLL_ASSIGN(const HostsDiff diff, diff_hosts(hosts, line.text("diff")));
    console.out(line.has("json") ? diff.json + "\n" : diff.text);
    return code_of(diff.findings);
  }
  const auto groups = group_hosts(hosts);
  console.out(line.has("json") ? hosts_json(hosts, groups) + "\n"
                               : hosts_text(hosts, groups, style_of(line, console)));
  if (line.has("matrix") && !line.has("json"))
    for (const auto& group : groups)
      console.out(format("\n# {}:\n", hosts[size_t(group.front())].host) +
                  topo_matrix(*hosts[size_t(group.front())].view, size_t(console.out_width())));
  if (!line.has("quiet"))
    for (const auto& group : groups)
      print_findings(hosts[size_t(group.front())].view->findings, console);
  return code_of(hosts_findings(hosts, groups, line.has("strict")));
}

Result<int> show_diff(const ParsedLine& line, const TopoView& view, Console& console) {
  ViewOptions options;
  options.from = line.text("diff");
  COLL_ASSIGN(const TopoView other, read_view(options));
  const auto differences = compare_machines(other.system, view.system);
  const DiffNames names{other.source, view.source};
  console.out(line.has("json") ? diff_json(differences, names) + "\n"
                               : diff_text(differences, names));
  return int(differences.empty() ? ErrorCode{} : ErrorCode::failed);
}

const topology::GraphChannel* first_ring(const std::vector<topology::NodeGraphs>& graphs) {
  return graphs.empty() || graphs[0].ring.channels.empty() ? nullptr : &graphs[0].ring.channels[0];
}

}  // namespace

Result<int> topo_command(const ParsedLine& line, Console& console) {
  COLL_ASSIGN(LaunchOptions launch, interpret_launch(line));
  const bool hosts = !launch.hosts.hosts.empty();
  COLL_TRY(check_together(line, hosts));
  if (hosts) return show_hosts(line, launch, console);
  COLL_ASSIGN(TopoView view, read_view(line));
  if (line.has("diff")) return show_diff(line, view, console);
  const int nodes = int(line.number("nodes", 1));
  std::vector<topology::NodeGraphs> graphs;
  if (line.has("graph") || line.has("json")) {
    COLL_ASSIGN(const SearchSettings settings, read_search_settings());
    COLL_ASSIGN(graphs, add_channels(view, nodes, settings));
  }
  if (line.has("xml"))
    COLL_TRY(write_file_atomically(line.text("xml"), topology::write_xml(view.system)));
  if (line.has("output")) {
    const std::string svg = topo_svg(view, line.has("graph") ? first_ring(graphs) : nullptr);
    if (line.text("output") == "-")
      console.out(svg);
    else
      COLL_TRY(write_file_atomically(line.text("output"), svg));
  }
  if (line.has("json")) {
    console.out(topo_json(view, graphs) + "\n");
    return strict_code(line, view);
  }
  // Who only wants a file gets nothing else on standard output.
  const bool more = line.has("matrix") || line.has("graph");
  if (more || !(line.has("xml") || line.has("output")))
    console.out(topo_tree(view, style_of(line, console)) + topo_rdma(view, line.has("verbose")));
  if (line.has("matrix")) console.out("\n" + topo_matrix(view, size_t(console.out_width())));
  if (line.has("graph")) console.out("\n" + topo_graph(view, graphs, nodes));
  if (line.has("quiet")) return strict_code(line, view);
  print_findings(view.findings, console);
  if (line.has("verbose")) print_findings(topology::idle_links(view.system, view.source), console);
  return strict_code(line, view);
}

}  // namespace collctl::cmd
