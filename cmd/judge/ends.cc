#include "cmd/judge/ends.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "base/format.h"

namespace collctl::cmd {

std::vector<Culprit> blame_ends(std::span<const EndTrial> trials, std::span<const Host> ends,
                                const TrialWords& words) {
  std::vector<Culprit> culprits;
  std::vector<int> tried(ends.size()), failed(ends.size());
  for (const EndTrial& each : trials)
    for (const size_t end : {each.from, each.to}) {
      ++tried[end];
      failed[end] += each.failed ? 1 : 0;
    }
  // The worst first; what it explains is taken from its peers.
  std::vector<size_t> order(ends.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return failed[a] * std::max(tried[b], 1) > failed[b] * std::max(tried[a], 1);
  });
  std::vector<int> left = failed;
  // Nobody can say which end it is where failures are with one peer alone: that is the link.
  const auto fails_with_several = [&](size_t end) {
    std::set<size_t> peers;
    for (const EndTrial& each : trials)
      if (each.failed && (each.from == end || each.to == end))
        peers.insert(each.from == end ? each.to : each.from);
    return peers.size() > 1;
  };
  std::vector<bool> guilty(ends.size());
  for (const size_t end : order) {
    if (left[end] * 2 < tried[end] || !fails_with_several(end)) continue;
    guilty[end] = true;
    culprits.push_back({SubjectKind::host, ends[end].name, double(failed[end]) / tried[end],
                        format("{} of {} {} with it failed", failed[end], tried[end], words.many),
                        false, ends[end]});
    for (const EndTrial& each : trials)
      if (each.failed && (each.from == end || each.to == end))
        --left[each.from == end ? each.to : each.from];
  }
  for (const EndTrial& each : trials)
    if (each.failed && !guilty[each.from] && !guilty[each.to])
      culprits.push_back({SubjectKind::link,
                          format("{} -> {}", ends[each.from], ends[each.to]),
                          1,
                          format("the {} between them failed", words.one),
                          false,
                          {}});
  return culprits;
}

}  // namespace collctl::cmd
