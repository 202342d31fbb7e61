#include <algorithm>

#include "base/check.h"
#include "base/format.h"
#include "runtime/bootstrap/wire.h"

namespace collctl::runtime::boot {

int group_begin(int index, int groups, int size) {
  const int even = size / groups, extra = size % groups;
  return index * even + std::min(index, extra);
}

int group_of(int rank, int groups, int size) {
  const int even = size / groups, extra = size % groups;
  const int in_larger = (even + 1) * extra;  // ranks of the groups that hold one more
  return rank < in_larger ? rank / (even + 1) : extra + (rank - in_larger) / std::max(even, 1);
}

int tree_parent(int rank, int groups, int size) {
  if (rank == 0) return -1;
  const int group = group_of(rank, groups, size);
  const int first = group_begin(group, groups, size);
  if (rank == first) return group_begin((group - 1) / kTreeArity, groups, size);
  return first + (rank - first - 1) / kTreeArity;
}

std::vector<int> tree_children(int rank, int groups, int size) {
  std::vector<int> children;
  const int group = group_of(rank, groups, size);
  const int first = group_begin(group, groups, size), end = group_begin(group + 1, groups, size);
  for (int i = 1; i <= kTreeArity; ++i)
    if (const int child = first + (rank - first) * kTreeArity + i; child < end)
      children.push_back(child);
  if (rank != first) return children;
  for (int i = 1; i <= kTreeArity; ++i)
    if (const int other = group * kTreeArity + i; other < groups)
      children.push_back(group_begin(other, groups, size));
  return children;
}

std::string rank_text(int rank, const std::string& host) {
  return host.empty() ? format("rank {}", rank) : format("rank {} (host {})", rank, host);
}

std::string rank_list(const std::vector<int>& ranks, const std::vector<std::string>& hosts) {
  constexpr size_t kShown = 8;
  std::string text;
  size_t at = 0;
  for (size_t shown = 0; at < ranks.size() && shown < kShown; ++shown) {
    size_t last = at;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (!text.empty()) text += ", ";
    if (last - at >= 3) {
      text += format("ranks {}-{}", ranks[at], ranks[last]);
      at = last + 1;
      continue;
    }
    const auto r = size_t(ranks[at]);
    text += rank_text(ranks[at], r < hosts.size() ? hosts[r] : std::string());
    ++at;
  }
  if (at < ranks.size()) text += format(" and {} more", ranks.size() - at);
  return text;
}

}  // namespace collctl::runtime::boot
