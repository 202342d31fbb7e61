#include "cmd/measure/topology_dump.h"

#include "base/env.h"
#include "base/whole_file.h"
#include "cmd/text/file.h"
#include "topology/detect/discover.h"
#include "topology/detect/reader.h"
#include "topology/xml/topo_file.h"
#include "topology/xml/xml.h"

namespace collctl::cmd {

Status dump_topology(int rank) {
  const base::KnobValue file = base::knob_value(base::KnobId::topo_dump_file);
  if (file.text.empty()) return {};
  COLL_ASSIGN(const int64_t writer, base::knob_int(base::KnobId::topo_dump_file_rank));
  if (writer != rank) return {};
  COLL_TRY_IN(check_writable(file.text), file.origin);
  topology::Reader reader = topology::live_reader();
  topology::Detected here = discover(reader);
  COLL_TRY(topology::complete_by_topo_file(here.system, here.findings));
  COLL_TRY_IN(base::write_file_atomically(file.text, topology::write_xml(here.system)),
              file.origin);
  return {};
}

}  // namespace collctl::cmd
