// `topo`: a machine as a tree, a matrix, JSON or the field's XML.
#include "cmd/topo.h"

#include "base/format.h"
#include "cmd/command_line.h"
#include "cmd/report.h"
#include "topology/xml.h"

namespace collctl::cmd {
Result<int> topo_command(const ParsedLine& line, Console& console) {
  if (line.has("xml")) COLL_TRY(check_writable(line.text("xml")));
  COLL_ASSIGN(const TopoView view, read_view(line));
  if (line.has("xml"))
    COLL_TRY(write_file_atomically(line.text("xml"), topology::write_xml(view.system)));
  if (line.has("json")) {
    console.out(topo_json(view) + "\n");
    return 0;
  }
  // Who only wants the file gets nothing else on standard output.
  if (line.has("matrix") || !line.has("xml")) console.out(topo_tree(view));
  if (line.has("matrix")) console.out("\n" + topo_matrix(view));
  if (!line.has("quiet")) print_findings(view.findings, console);
  return 0;
}

}  // namespace collctl::cmd
