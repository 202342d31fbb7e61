// `topo`: a machine from its topology file, as a tree, a matrix, JSON or the field's XML.
#include "cmd/topo.h"

#include "base/format.h"
#include "cmd/command_line.h"
#include "cmd/report.h"
#include "topology/findings.h"
#include "topology/xml.h"

namespace collctl::cmd {
namespace {

Result<TopoView> view_file(const std::string& path) {
  TopoView view;
  view.source = path;
  COLL_ASSIGN(topology::Document document, topology::read_xml_file(path));
  COLL_ASSIGN(view.graph, topology::make_graph(document.system, path));
  view.system = std::move(document.system);
  view.base = topology::base_paths(view.graph);
  view.effective = topology::effective_paths(view.graph, view.base, {});
  view.oddities = topology::inspect(view.system, path);
  topology::FindingList findings(path);
  for (const auto& finding : document.findings) findings.add(finding);
  for (const auto& finding : view.graph.findings) findings.add(finding);
  for (const auto& oddity : view.oddities) findings.add(oddity.finding);
  view.findings = findings.take();
  return view;
}

void print_findings(const TopoView& view, Console& console) {
  for (const auto& finding : view.findings) {
    std::string text = finding.what + " (" + finding.where + ")";
    if (!finding.remedy.empty()) text += "; " + finding.remedy;
    if (finding.severity == topology::Severity::warning)
      console.err(format("collctl: {} {}\n", console.err_colour("33", "warning:"), text));
    else
      console.note(text);
  }
}

}  // namespace

Result<int> topo_command(const ParsedLine& line, Console& console) {
  if (!line.has("from"))
    return Error(ErrorCode::usage,
                 "topo: expected --from FILE; for example: collctl topo --from topology.xml");
  const std::string path = line.text("from");
  if (line.has("xml")) COLL_TRY(check_writable(line.text("xml")));
  COLL_ASSIGN(const TopoView view, view_file(path));
  if (line.has("xml"))
    COLL_TRY(write_file_atomically(line.text("xml"), topology::write_xml(view.system)));
  if (line.has("json")) {
    console.out(topo_json(view) + "\n");
    return 0;
  }
  // Who only wants the file gets nothing else on standard output.
  if (line.has("matrix") || !line.has("xml")) console.out(topo_tree(view));
  if (line.has("matrix")) console.out("\n" + topo_matrix(view));
  if (!line.has("quiet")) print_findings(view, console);
  return 0;
}

}  // namespace collctl::cmd
