#include "topology/findings.h"

#include "base/format.h"

namespace collctl::topology {

std::string FindingList::where(const Place& at) const {
  return at.line > 0 ? format("{}:{}", source_, at.line) : source_;
}

void FindingList::add(Finding finding) {
  const auto [found, fresh] = index_.try_emplace(finding.what, list_.size());
  if (fresh) list_.emplace_back(std::move(finding), 0);
  ++list_[found->second].second;
}

std::vector<Finding> FindingList::take() {
  std::vector<Finding> all;
  for (auto& [finding, count] : list_) {
    if (all.size() + 1 == kMaxFindings && list_.size() > kMaxFindings) {
      all.push_back({Severity::warning,
                     format("{} more findings are not shown", list_.size() - all.size()), source_,
                     ""});
      break;
    }
    if (count > 1) finding.what += format(" ({} times; the first is shown)", count);
    all.push_back(std::move(finding));
  }
  list_.clear();
  index_.clear();
  return all;
}

}  // namespace collctl::topology
