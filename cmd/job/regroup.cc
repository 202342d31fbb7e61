#include "cmd/job/regroup.h"

#include <algorithm>

namespace collctl::cmd {

bool all_are_heard(const std::vector<RankFacts>& ranks, const std::vector<int>& members,
                   bool settled) {
  return std::all_of(members.begin(), members.end(), [&](int member) {
    const RankFacts& r = ranks[size_t(member)];
    return r.exited || r.broken || (settled && (r.state == 'T' || r.state == 't'));
  });
}

Regrouped regrouped(const std::vector<RankFacts>& ranks, const std::vector<int>& members) {
  Regrouped found;
  for (const int member : members) {
    const RankFacts& r = ranks[size_t(member)];
    if (r.exited && !r.end.error && !died(r)) continue;
    if (!r.exited && r.broken) {
      found.left.push_back(member);
      continue;
    }
    LostRanks lost = why_lost(r);
    const auto same = std::find_if(found.lost.begin(), found.lost.end(), [&](const LostRanks& l) {
      return l.host == lost.host && l.why == lost.why;
    });
    if (same == found.lost.end())
      found.lost.push_back(std::move(lost));
    else
      same->ranks.push_back(member);
  }
  return found;
}

}  // namespace collctl::cmd
