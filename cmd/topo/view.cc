#include "cmd/topo/view.h"

#include "base/env.h"
#include "base/format.h"
#include "cmd/judge/topology.h"
#include "cmd/report/report.h"
#include "cmd/topo/parts.h"
#include "topology/detect/assume.h"
#include "topology/detect/reader_snapshot.h"
#include "topology/findings.h"
#include "topology/xml/topo_file.h"
#include "topology/xml/xml.h"

namespace collctl::cmd {
namespace {

using namespace topology;

struct Machine {
  std::string source;
  System system;
  std::optional<base::Processors> processors;
  std::vector<topology::Finding> findings;
  bool live = false, from_file = false;
};

bool is_gzip_name(const std::string& path) {
  return path.ends_with(".tar.gz") || path.ends_with(".tgz");
}
bool is_archive_name(const std::string& path) {
  return is_gzip_name(path) || path.ends_with(".tar");
}

Status save(const Reader& reader, TreeNodes taken, const std::string& path) {
  const TreeNodes files = snapshot_files(reader, std::move(taken));
  if (!is_archive_name(path)) return write_snapshot_folder(files, path);
  COLL_ASSIGN(const std::string bytes, snapshot_archive(files, is_gzip_name(path)));
  return write_file_atomically(path, bytes);
}

Result<Machine> detected(Reader reader, const std::string& save_to) {
  Machine machine;
  machine.source = reader.host;
  TreeNodes taken;
  Detected found = save_to.empty() ? discover(reader) : discover_recorded(reader, taken);
  if (!save_to.empty()) COLL_TRY(save(reader, std::move(taken), save_to));
  machine.system = std::move(found.system);
  machine.processors = std::move(found.processors);
  machine.findings = std::move(found.findings);
  return machine;
}

// This machine, with what a file says of it.
Result<Machine> live_machine(const std::string& save_to) {
  COLL_ASSIGN(Machine machine, detected(live_reader(), save_to));
  machine.live = true;
  COLL_TRY(complete_by_topo_file(machine.system, machine.findings));
  if (const std::string file = base::knob_text(base::KnobId::topo_file); !file.empty())
    machine.source = format("{} with {}", machine.source, file);
  return machine;
}

Result<Machine> machine_of(const ViewOptions& options) {
  if (options.from.empty()) return live_machine(options.save);
  COLL_ASSIGN(const SourceKind kind, kind_of_source(options.from));
  if (kind != SourceKind::xml) {
    COLL_ASSIGN(Reader reader, snapshot_reader(options.from));
    COLL_ASSIGN(Machine machine, detected(std::move(reader), options.save));
    machine.source = options.from;
    return machine;
  }
  if (!options.save.empty())
    return Error(ErrorCode::usage, format("--save: {} is a topology file", options.from),
                 "a snapshot is made of this machine or of another snapshot; --xml writes a file");
  COLL_ASSIGN(topology::Document document, read_xml_file(options.from));
  Machine machine;
  machine.source = options.from;
  machine.from_file = true;
  machine.system = std::move(document.system);
  machine.findings = std::move(document.findings);
  return machine;
}

}  // namespace

void print_findings(const std::vector<topology::Finding>& list, Console& console) {
  for (const Finding& finding : topology_findings(list, false)) {
    std::string text = finding.message + " (" + finding.at.device + ")";
    if (!finding.remedy.empty()) text += "; " + finding.remedy;
    text = plain(std::move(text));  // names of a file, or of another host
    if (finding.status == FindingStatus::warn)
      console.err(format("collctl: {} {}\n", console.err_colour("33", "warning:"), text));
    else
      console.note(text);
  }
}

Result<TopoView> view_of(System system, std::string source, std::vector<topology::Finding> known) {
  TopoView view;
  view.source = std::move(source);
  COLL_ASSIGN(view.rules, read_rules());
  COLL_ASSIGN(view.graph, make_graph(system, view.source));
  view.system = std::move(system);
  view.base = base_paths(view.graph, {.through_gpus = view.rules.nvb});
  view.effective = effective_paths(view.graph, view.base, view.rules);
  view.oddities = inspect(view.system, view.source);
  FindingList findings(view.source);
  for (auto& finding : known) findings.add(std::move(finding));
  for (const auto& finding : view.graph.findings) findings.add(finding);
  for (const auto& oddity : view.oddities) findings.add(oddity.finding);
  view.findings = findings.take();
  return view;
}

Result<TopoView> read_view(const ParsedLine& line) {
  ViewOptions options;
  COLL_TRY(fill(line, options));
  return read_view(options);
}

Result<TopoView> read_view(const ViewOptions& options) {
  COLL_ASSIGN(Machine machine, machine_of(options));
  if (!options.assume.empty()) {
    COLL_ASSIGN(Assumed assumed, assume(std::move(machine.system), options.assume,
                                        options.assume_nic_gbps, machine.source));
    machine.system = std::move(assumed.system);
    machine.findings.insert(machine.findings.end(), assumed.findings.begin(),
                            assumed.findings.end());
  } else if (options.assume_nic_gbps) {
    return Error(ErrorCode::usage, "--assume-nic: expected --assume MODEL with it");
  }
  COLL_ASSIGN(TopoView view, view_of(std::move(machine.system), std::move(machine.source),
                                     std::move(machine.findings)));
  if (machine.from_file && view.graph.gpus.empty())
    view.findings.push_back({Severity::warning, "no GPU is listed", view.source,
                             "--assume MODEL fills in those of a skeleton; on the machine itself "
                             "they are detected"});
  view.live = machine.live;
  if (view.live) {
    view.rdma = base::rdma_devices();
    view.gpu_direct = base::gpu_direct_facts();
    view.memlock_bytes = base::locked_memory_limit().soft;
  }
  view.processors = std::move(machine.processors);
  return view;
}

}  // namespace collctl::cmd
