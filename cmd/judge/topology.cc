#include "cmd/judge/topology.h"

namespace collctl::topology {

void fields(Record& io, Finding& finding) {
  io.name("severity", finding.severity, 2, severity_name);
  io.field("what", finding.what);
  io.field("where", finding.where);
  io.field("remedy", finding.remedy);
}

}  // namespace collctl::topology

namespace collctl::cmd {

std::vector<Finding> topology_findings(const std::vector<topology::Finding>& list, bool strict) {
  std::vector<Finding> findings;
  for (const topology::Finding& each : list) {
    Finding& finding = findings.emplace_back();
    finding.name = "topology";
    finding.at = {.kind = SubjectKind::host, .device = each.where};
    if (each.severity != topology::Severity::warning) {
      finding.message = each.what;
      finding.remedy = each.remedy;
    } else if (strict) {
      finding.fail(ErrorCode::failed, each.what, each.remedy);
    } else {
      finding.warn(each.what, each.remedy);
    }
  }
  return findings;
}

}  // namespace collctl::cmd
