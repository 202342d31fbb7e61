// `topo`: a machine, or those of all hosts, as a tree, a matrix, channels, a picture, JSON, XML, or
// against another one.
#include "cmd/topo/topo.h"

#include <algorithm>

#include "base/env.h"
#include "base/format.h"
#include "cmd/cli/option_rows.h"
#include "cmd/job/options.h"
#include "cmd/job/talk.h"
#include "cmd/judge/topology.h"
#include "cmd/judge/verdict.h"
#include "cmd/report/options.h"
#include "cmd/report/report.h"
#include "cmd/text/console.h"
#include "cmd/topo/diff.h"
#include "cmd/topo/hosts.h"
#include "cmd/topo/machine_search.h"
#include "cmd/topo/svg_plane.h"
#include "topology/detect/assume.h"
#include "topology/xml/xml.h"

namespace collctl::cmd {

namespace {

// Options about one machine mean nothing for many, and a comparison is all that --diff prints.
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
  for (const std::string& path : line.all("output")) {
    if (path == "-") COLL_TRY(exclude("-o -", {"json", "matrix", "graph"}));
    if (hosts && path.find("%h") == std::string::npos)
      return usage(format(
          "topo: -o {}: of several hosts a file each: expected %h, the host's name, in it", path));
    if (!hosts && path != "-") COLL_TRY(check_writable(path));
  }
  if (line.has("xml")) COLL_TRY(check_writable(line.text("xml")));
  return {};
}

// -o, but for the picture on standard output.
Result<OutputOptions> output_of(ParsedLine line) {
  std::erase(line.given["output"], "-");
  return interpret_output(line, nullptr, {.pictures = true});
}

bool has_picture_on_stdout(const ParsedLine& line) {
  const auto paths = line.all("output");
  return std::ranges::find(paths, "-") != paths.end();
}

bool only_pictures(const OutputOptions& output) {
  return std::ranges::all_of(output.files,
                             [](const OutputFile& file) { return file.format == Format::svg; });
}

// Files of one machine. The paths between its devices are the rows.
Document topo_document(const TopoView& view, const std::vector<topology::NodeGraphs>& graphs,
                       const topology::GraphChannel* ring) {
  Document document = document_with(topo_json(view, graphs), "paths");
  document.title = "collctl topo: " + view.source;
  document.has_verdict = false;
  document.svg = topo_svg(view, ring);
  document.parts.push_back(
      {.what = Drawn{[&view](size_t) { return topo_tree(view, {}) + topo_rdma(view, true); }},
       .after = true});
  document.parts.push_back(
      {.what = Drawn{[&view](size_t width) { return topo_matrix(view, width); }}, .after = true});
  return document;
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
  COLL_ASSIGN(const OutputOptions output, output_of(line));
  launch.talk = console_talk(console, line.has("quiet"));
  COLL_ASSIGN(std::vector<HostTopology> hosts, ask_topologies(launch));
  for (HostTopology& host : hosts) {
    if (!host.view || (!line.has("json") && only_pictures(output))) continue;
    // Without this host's knobs: a graph file is of one machine.
    COLL_ASSIGN(host.graphs, add_channels(*host.view, 1, {}));
  }
  if (line.has("save")) COLL_TRY(save_hosts(hosts, line.text("save")));
  for (const HostTopology& host : hosts) {
    if (!host.view || output.files.empty()) continue;
    std::vector<OutputFile> files = output.files;
    for (OutputFile& file : files) file.path = file_of_host(file.path, host.host.name);
    COLL_TRY(write_documents(files, topo_document(*host.view, host.graphs, nullptr)));
  }
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
  COLL_ASSIGN(const OutputOptions output, output_of(line));
  COLL_ASSIGN(TopoView view, read_view(line));
  if (line.has("diff")) return show_diff(line, view, console);
  const int nodes = int(line.number("nodes", 1));
  std::vector<topology::NodeGraphs> graphs;
  if (line.has("graph") || line.has("json") || !only_pictures(output)) {
    COLL_ASSIGN(const SearchSettings settings, read_search_settings());
    COLL_ASSIGN(graphs, add_channels(view, nodes, settings));
  }
  if (line.has("xml"))
    COLL_TRY(write_file_atomically(line.text("xml"), topology::write_xml(view.system)));
  const auto* const ring = line.has("graph") ? first_ring(graphs) : nullptr;
  if (has_picture_on_stdout(line)) console.out(topo_svg(view, ring));
  if (!output.files.empty())
    COLL_TRY(write_documents(output.files, topo_document(view, graphs, ring)));
  if (line.has("json")) {
    console.out(topo_json(view, graphs) + "\n");
    return strict_code(line, view);
  }
  // A user who only wants a file gets nothing else on standard output.
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

// The options of `topo`, some of which `plan` shares.

namespace {

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const topology::AssumedModel& model : topology::assumed_models())
    names.push_back(model.name);
  return names;
}

}  // namespace

void add_topo_options(std::vector<Option>& t) {
  using namespace kinds;
  const Adder add{t, Group::output, kTopo};
  add.in(kTopo | kPlan)(
      "from", file(), to<&ViewOptions::from>,
      "a topology file (XML) or a snapshot, instead of this machine",
      "A snapshot is what --save has made: a folder or an archive. A copy of /sys, or a folder "
      "that holds one, works too. The content decides which it is.");
  add("save", file("PATH"), to<&ViewOptions::save>,
      "save what was read of this machine, for --from elsewhere",
      "PATH.tar, PATH.tar.gz and PATH.tgz become an archive, anything else a new folder. It holds "
      "the kernel's files about processors and PCI devices and what the drivers say of GPUs and "
      "network devices, with this host's name; no addresses, no users, no environment. --from "
      "reads it anywhere. With -H: a folder with a topology file HOST.xml of each host, for --diff "
      "later.");
  add.in(kTopo | kPlan)("assume", one_of("MODEL", model_names(), "none"), to<&ViewOptions::assume>,
                        "what the GPUs are that a topology file only hints at",
                        "Files of clouds often list PCI devices only. Devices of a GPU's class "
                        "become GPUs of this model with their NVLinks, devices of a NIC's class "
                        "network devices; all of it is marked as assumed.");
  add.in(kTopo | kPlan)("assume-nic", number("GBPS", "Gb/s", 0.001, 100000, "chosen"),
                        to<&ViewOptions::assume_nic_gbps>,
                        "speed of an assumed network device, Gb/s",
                        "Not given: what the device's PCI ids say; else each GPU's share of 200 "
                        "Gb/s for a100 and a800, 400 for h100, h800, h200 and b200, 200 for "
                        "h100-pcie and l40s, 100 for the others, and never more than that.");
  add("matrix", flag(), "path type and GB/s between GPUs and to network devices");
  add("graph", flag(), "the channels that the search finds: rings and trees",
      "Of one node, or with --nodes of each of several. Equal channels are shown once.");
  add("diff", file(), "what differs from that file or snapshot; exit 1 when something does",
      "Devices are matched by their PCI addresses; what was there and is missing, what was added, "
      "and every attribute that changed is named. With -H every host is compared: with one "
      "machine, whose serial numbers do not count then, or with its own file in a folder that "
      "--save has made.");
  add("strict", flag(), "exit 1 when something is marked as faulty (!)",
      "Without it faults are printed and the exit code is 0. With -H: also when all hosts are "
      "equal and share a fault.");
  add_file_option(t, kTopo, "draw the machine: .svg, - for stdout; or .html .json .jsonl .csv",
                  "The ending says which: a picture, with --graph also of its first ring; a page "
                  "with picture, tree and matrix; all of it for programs; the paths as rows. With "
                  "-H a file for each host: %h in FILE is its name. A file appears whole or not at "
                  "all. Standard output then stays empty unless --matrix, --graph or --json is "
                  "there too.");
  add("xml", file(), "write the topology as XML",
      "The file appears whole or not at all. Standard output then stays empty unless --matrix, "
      "--graph or --json is there too.");
}

}  // namespace collctl::cmd
