// A curve in characters: bus bandwidth over size, one column block per size, one letter per series.
#include <algorithm>

#include "base/format.h"
#include "cmd/report/report.h"
#include "cmd/text/sizes.h"

namespace collctl::cmd {
std::vector<Curve> curves_of(const std::vector<BenchRow>& rows) {
  std::vector<Curve> all;
  const auto add = [&](const std::string& name, const BenchRow& row, const Timing& timing) {
    if (!timing.measured) return;
    auto it = std::find_if(all.begin(), all.end(), [&](const Curve& c) { return c.name == name; });
    if (it == all.end()) it = all.insert(all.end(), Curve{name, {}});
    it->points[row.bytes] = &timing;
  };
  bool types = false, ops = false, roots = false, choices = false, groups = false, losses = false;
  for (const BenchRow& row : rows) {
    types |= row.type != rows[0].type;
    ops |= row.op != rows[0].op;
    roots |= row.root != rows[0].root;
    groups |= row.group != rows[0].group;
    losses |= row.ranks != rows[0].ranks;
    // A choice that changes with the size is one curve; two choices at one size are two.
    for (const BenchRow& other : rows)
      choices |= &row != &other && row.bytes == other.bytes && row.type == other.type &&
                 row.op == other.op && row.root == other.root && row.group == other.group &&
                 row.ranks == other.ranks &&
                 (row.algorithm != other.algorithm || row.protocol != other.protocol);
  }
  for (const BenchRow& row : rows) {
    std::string name;
    if (groups) name += format("group {} ", row.group);
    if (losses) name += row.ranks > 0 ? format("{} ranks ", row.ranks) : "all ranks ";
    if (types) name += format("{} ", name_of(row.type));
    if (ops) name += format("{} ", row.has_op ? name_of(row.op) : "none");
    if (roots) name += format("root {} ", row.root);
    if (choices) name += format("{}/{} ", row.algorithm, row.protocol);
    add(name + "out of place", row, row.out_of_place);
    add(name + "in place", row, row.in_place);
  }
  return all;
}

std::string plot(const std::vector<BenchRow>& rows) {
  constexpr int kHeight = 12, kMostSeries = 26;
  constexpr size_t kMostSizes = 100;
  if (rows.empty()) return "";
  std::vector<Curve> all = curves_of(rows);
  if (int(all.size()) > kMostSeries) all.resize(kMostSeries);
  std::vector<uint64_t> sizes;
  double highest = 0;
  for (const Curve& series : all)
    for (const auto& [bytes, timing] : series.points) {
      if (std::find(sizes.begin(), sizes.end(), bytes) == sizes.end()) sizes.push_back(bytes);
      highest = std::max(highest, timing->busbw_GBps);
    }
  if (highest <= 0 || sizes.empty()) return "# plot: no bandwidth to draw\n";
  std::sort(sizes.begin(), sizes.end());
  // Too many sizes for a terminal: every so many-th, and the last.
  const size_t stride = (sizes.size() + kMostSizes - 1) / kMostSizes;
  std::vector<uint64_t> shown;
  for (size_t i = sizes.size(); i > 0; i = i > stride ? i - stride : 0)
    shown.push_back(sizes[i - 1]);
  std::reverse(shown.begin(), shown.end());
  const int step = std::clamp(int(100 / shown.size()), 1, 4);
  std::vector<std::string> canvas(kHeight, std::string(shown.size() * size_t(step), ' '));
  for (size_t s = 0; s < all.size(); ++s)
    for (size_t x = 0; x < shown.size(); ++x) {
      const auto point = all[s].points.find(shown[x]);
      if (point == all[s].points.end()) continue;
      const int y = std::clamp(int(point->second->busbw_GBps / highest * kHeight), 0, kHeight - 1);
      char& spot = canvas[size_t(kHeight - 1 - y)][x * size_t(step)];
      spot = spot == ' ' ? char('a' + s) : '*';
    }
  std::string text = "#\n# bus bandwidth, GB/s\n";
  for (int line = 0; line < kHeight; ++line) {
    const bool label = line % 4 == 0;
    std::string drawn = canvas[size_t(line)];
    drawn.erase(drawn.find_last_not_of(' ') + 1);
    text += format("# {:>8} |{}\n", label ? four_digits(highest * (kHeight - line) / kHeight) : "",
                   drawn);
  }
  text += format("# {:>8} +{}\n", "0", std::string(shown.size() * size_t(step), '-'));
  const std::string first = human_bytes(shown.front()), last = human_bytes(shown.back());
  const size_t width = std::max(shown.size() * size_t(step), first.size() + last.size() + 1);
  text += format("#           {}{}{}\n", first,
                 std::string(width - first.size() - last.size(), ' '), last);
  for (size_t s = 0; s < all.size(); ++s)
    text += format("#   {}  {}\n", char('a' + s), all[s].name);
  if (all.size() > 1) text += "#   *  several at one place\n";
  return text;
}

}  // namespace collctl::cmd
