#include "cmd/topo/dump.h"

#include "base/env.h"
#include "cmd/report/report.h"
#include "cmd/topo/view.h"
#include "topology/xml/xml.h"

namespace collctl::cmd {

Status dump_topology(int rank) {
  const base::KnobValue file = base::knob_value(base::KnobId::topo_dump_file);
  if (file.text.empty()) return {};
  COLL_ASSIGN(const int64_t writer, base::knob_int(base::KnobId::topo_dump_file_rank));
  if (writer != rank) return {};
  COLL_TRY_IN(check_writable(file.text), file.origin);
  COLL_ASSIGN(const TopoView view, read_view(ViewOptions{}));
  COLL_TRY_IN(write_file_atomically(file.text, topology::write_xml(view.system)), file.origin);
  return {};
}

}  // namespace collctl::cmd
