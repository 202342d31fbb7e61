// The curves of a measurement as a picture: bus bandwidth and time over size.
#include <algorithm>

#include "base/format.h"
#include "base/record.h"
#include "cmd/report/read.h"
#include "cmd/report/report.h"
#include "cmd/text/chart.h"
#include "cmd/text/sizes.h"

namespace collctl::cmd {

namespace {

constexpr size_t kMostCurves = 24;

std::string title_of(const BenchReport& report) {
  std::string title = format("collctl {}", name_of(report.spec.collective));
  if (!report.header) return title;
  const bool one = report.header->ranks == 1;
  title += format(": {} {} {}{}", report.header->ranks,
                  report.header->device == "cuda" ? "GPU" : "CPU", one ? "rank" : "ranks",
                  report.header->hosts.size() == 1
                      ? " on " + report.header->hosts[0].host.name
                      : format(" on {} hosts", report.header->hosts.size()));
  return title;
}

}  // namespace

std::map<uint64_t, double> expected_busbw(const std::string& measured) {
  struct Row {
    uint64_t bytes = 0;
    double GBps = 0;
  };
  std::vector<Row> rows;
  std::map<uint64_t, double> expected;
  auto io = Record::read(measured);
  if (!io || !io->has("results", true)) return expected;
  io->list("results", rows, [&](Row& row) {
    io->object("results", [&] {
      io->field("bytes", row.bytes);
      if (!io->has("expected", true)) return;
      io->object("expected", [&] {
        std::string source;
        if (io->has("source", true)) io->field("source", source);
        if (source != "assumed" && io->has("busbw_GBps", true))
          io->field("busbw_GBps", row.GBps, 0, 1e12);
      });
    });
  });
  for (const Row& row : rows)
    if (row.bytes > 0 && row.GBps > 0)
      expected[row.bytes] = std::max(expected[row.bytes], row.GBps);
  return expected;
}

std::string curves_svg(const BenchReport& report, const std::map<uint64_t, double>& expected) {
  std::vector<Curve> curves = curves_of(report.rows);
  if (curves.size() > kMostCurves) curves.resize(kMostCurves);
  std::vector<uint64_t> sizes;
  for (const Curve& curve : curves)
    for (const auto& [bytes, timing] : curve.points) sizes.push_back(bytes);
  for (const auto& [bytes, value] : expected) sizes.push_back(bytes);
  std::ranges::sort(sizes);
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  // Sizes stand side by side, whatever the step between them.
  const auto point = [&](uint64_t bytes, double value) -> ChartPoint {
    const auto place = std::lower_bound(sizes.begin(), sizes.end(), bytes) - sizes.begin();
    return {double(place), value, human_bytes(bytes)};
  };
  Chart chart{.title = title_of(report)};
  chart.height = 230;
  chart.high = sizes.empty() ? 0 : double(sizes.size() - 1);
  for (const uint64_t bytes : sizes) chart.marks.push_back({point(bytes, 0).x, human_bytes(bytes)});
  const auto panel = [&](const char* title, double Timing::*value) {
    ChartPanel made{.title = title};
    for (size_t c = 0; c < curves.size(); ++c) {
      ChartCurve curve{.name = curves[c].name, .colour = c};
      for (const auto& [bytes, timing] : curves[c].points)
        if (timing->*value > 0) curve.points.push_back(point(bytes, timing->*value));
      made.curves.push_back(std::move(curve));
    }
    return made;
  };
  chart.panels = {panel("bus bandwidth, GB/s", &Timing::busbw_GBps),
                  panel("time, us", &Timing::time_us)};
  chart.panels[1].logarithmic = true;
  chart.list = chart.panels[1].curves;
  if (!expected.empty()) {
    ChartCurve curve{.name = "expected bus bandwidth", .expected = true};
    for (const auto& [bytes, value] : expected) curve.points.push_back(point(bytes, value));
    chart.list.push_back(curve);
    auto& bandwidth = chart.panels[0].curves;
    bandwidth.insert(bandwidth.begin(), std::move(curve));
  }
  if (sizes.empty()) chart.title += ": nothing was measured";
  return chart_svg(chart);
}

// A curve in characters: bus bandwidth over size, one column block per size, one letter per series.

std::vector<Curve> curves_of(const std::vector<BenchRow>& rows) {
  std::vector<Curve> all;
  const auto add = [&](const std::string& name, const BenchRow& row, const Timing& timing) {
    if (!timing.measured) return;
    auto it = std::ranges::find(all, name, &Curve::name);
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
      if (std::ranges::find(sizes, bytes) == sizes.end()) sizes.push_back(bytes);
      highest = std::max(highest, timing->busbw_GBps);
    }
  if (highest <= 0 || sizes.empty()) return "# plot: no bandwidth to draw\n";
  std::ranges::sort(sizes);
  // Too many sizes for a terminal: every so many-th, and the last.
  const size_t stride = (sizes.size() + kMostSizes - 1) / kMostSizes;
  std::vector<uint64_t> shown;
  for (size_t i = sizes.size(); i > 0; i = i > stride ? i - stride : 0)
    shown.push_back(sizes[i - 1]);
  std::ranges::reverse(shown);
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
