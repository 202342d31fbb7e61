#include "cmd/topo_view.h"

#include "topology/findings.h"
#include "topology/xml.h"

namespace collctl::cmd {

Result<TopoView> view_of(topology::System system, std::string source,
                         std::vector<topology::Finding> known) {
  TopoView view;
  view.source = std::move(source);
  COLL_ASSIGN(view.rules, topology::read_rules());
  COLL_ASSIGN(view.graph, topology::make_graph(system, view.source));
  view.system = std::move(system);
  view.base = topology::base_paths(view.graph, {.through_gpus = view.rules.nvb});
  view.effective = topology::effective_paths(view.graph, view.base, view.rules);
  view.oddities = topology::inspect(view.system, view.source);
  topology::FindingList findings(view.source);
  for (auto& finding : known) findings.add(std::move(finding));
  for (const auto& finding : view.graph.findings) findings.add(finding);
  for (const auto& oddity : view.oddities) findings.add(oddity.finding);
  view.findings = findings.take();
  return view;
}

Result<TopoView> read_view(const ParsedLine& line) {
  if (!line.has("from"))
    return Error(ErrorCode::usage, line.command->name +
                                       std::string(": expected --from FILE; for example: collctl ") +
                                       line.command->name + " --from topology.xml");
  const std::string path = line.text("from");
  COLL_ASSIGN(topology::Document document, topology::read_xml_file(path));
  return view_of(std::move(document.system), path, std::move(document.findings));
}

}  // namespace collctl::cmd
