#include "topology/xml/topo_file.h"

#include "base/env.h"
#include "topology/detect/merge.h"
#include "topology/xml/xml.h"

namespace collctl::topology {

Status complete_by_topo_file(System& system, std::vector<Finding>& findings) {
  const base::KnobValue file = base::knob_value(base::KnobId::topo_file);
  if (file.text.empty()) return {};
  auto read = read_xml_file(file.text);
  if (!read) return std::move(read.error()).within(file.origin);
  Merged merged = merge(read->system, system, file.text);
  system = std::move(merged.system);
  for (const auto* found : {&read->findings, &merged.findings})
    findings.insert(findings.end(), found->begin(), found->end());
  return {};
}

}  // namespace collctl::topology
