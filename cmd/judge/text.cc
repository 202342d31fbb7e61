#include "cmd/judge/text.h"

namespace collctl::cmd {

std::string cell_text(const Finding& finding) {
  std::string text = finding.cell;
  if (text.empty()) text = finding.measured + (finding.unit.empty() ? "" : " " + finding.unit);
  if (finding.status == FindingStatus::fail) return text + " !";
  return finding.odd ? text + " *" : text;
}

std::string evidence_alone(const Culprit& culprit) {
  std::string text = culprit.evidence;
  for (const std::string& name : {culprit.name, culprit.host.name})
    if (!name.empty() && text.starts_with(name + ": ")) text.erase(0, name.size() + 2);
  return text;
}

}  // namespace collctl::cmd
