// The curves of a measurement as a picture: bus bandwidth and time over size.
#include <algorithm>
#include <cmath>

#include "base/format.h"
#include "base/record.h"
#include "cmd/report/read.h"
#include "cmd/report/report.h"
#include "cmd/text/sizes.h"
#include "cmd/text/svg.h"

namespace collctl::cmd {

namespace {

constexpr double kLeft = 84, kRight = 24, kPlotWidth = 760, kPlotHeight = 230;
constexpr double kText = 11, kHead = 14;
constexpr int kColours = 8;  // path.curve0 .. path.curve7 of the style sheet
constexpr size_t kMostCurves = 24;
constexpr size_t kMostLabels = 13;  // sizes that are named below

// From a value to its part of the height, and the values that are named beside it.
struct Axis {
  bool logarithmic = false;
  double low = 0, high = 1;
  std::vector<double> marks;

  double at(double value) const {
    return logarithmic ? std::log(value / low) / std::log(high / low)
                       : (value - low) / (high - low);
  }
};

Axis linear_axis(double highest) {
  // At most six steps of 1, 2 or 5 times a power of ten.
  const double power = std::pow(10, std::floor(std::log10(highest / 6)));
  double step = power;
  for (const double times : {2.0, 5.0, 10.0})
    if (highest > 6 * step) step = power * times;
  Axis axis;
  axis.high = step * std::ceil(highest / step);
  for (int i = 0; i * step <= axis.high * 1.001; ++i) axis.marks.push_back(i * step);
  return axis;
}

Axis logarithmic_axis(double lowest, double highest) {
  Axis axis{.logarithmic = true, .marks = {}};
  const int first = int(std::floor(std::log10(lowest)));
  const int last = std::max(int(std::ceil(std::log10(highest))), first + 1);
  axis.low = std::pow(10, first);
  axis.high = std::pow(10, last);
  for (int power = first; power <= last; ++power) axis.marks.push_back(std::pow(10, power));
  return axis;
}

struct Canvas {
  Picture picture;
  std::vector<uint64_t> sizes;

  void text(Point at, const std::string& what, const char* style = "", bool bold = false,
            bool centred = false, double size = kText) {
    picture.texts.push_back({at, what, style, size, bold, centred, false});
  }
  void line(std::vector<Point> points, double width, const std::string& style,
            const std::string& tip = "") {
    picture.lines.push_back({std::move(points), width, style, tip, false, false});
  }
  // Sizes stand side by side, whatever the step between them.
  double x_of(uint64_t bytes) const {
    const auto place = std::lower_bound(sizes.begin(), sizes.end(), bytes) - sizes.begin();
    return kLeft +
           (sizes.size() == 1 ? 0.5 : double(place) / double(sizes.size() - 1)) * kPlotWidth;
  }

  // `expected`: by bytes, a dashed line.
  double panel(double y, const std::string& title, const Axis& axis,
               const std::vector<Curve>& curves, double Timing::*value,
               const std::map<uint64_t, double>& expected = {}) {
    text({kLeft, y + kHead}, title, "", true, false, kHead - 1);
    y += kHead + 14;
    for (const double mark : axis.marks) {
      const double at = y + kPlotHeight * (1 - axis.at(mark));
      line({{kLeft, at}, {kLeft + kPlotWidth, at}}, 0.5, "sys");
      const std::string label = format("{:g}", mark);
      text({kLeft - 8 - text_width(label, kText, false), at + kText * 0.36}, label, "muted");
    }
    const size_t stride = (sizes.size() + kMostLabels - 1) / kMostLabels;
    for (size_t i = 0; i < sizes.size(); i += stride)
      text({x_of(sizes[i]), y + kPlotHeight + 18}, human_bytes(sizes[i]), "muted", false, true);
    std::vector<Point> dashes;
    std::string dashes_tip = "expected";
    for (const auto& [bytes, v] : expected) {
      dashes.push_back({x_of(bytes), y + kPlotHeight * (1 - axis.at(v))});
      dashes_tip += format("\n{}: {}", human_bytes(bytes), four_digits(v));
    }
    if (dashes.size() == 1)
      dashes = {{dashes[0].x - 8, dashes[0].y}, {dashes[0].x + 8, dashes[0].y}};
    if (!dashes.empty()) line(std::move(dashes), 1.5, "expected", dashes_tip);
    for (size_t c = 0; c < curves.size(); ++c) {
      std::vector<Point> points;
      std::string tip = curves[c].name;
      for (const auto& [bytes, timing] : curves[c].points) {
        const double v = timing->*value;
        if (v <= 0) continue;
        points.push_back({x_of(bytes), y + kPlotHeight * (1 - axis.at(v))});
        tip += format("\n{}: {}", human_bytes(bytes), four_digits(v));
      }
      const std::string style = format("curve{}", c % kColours);
      if (points.size() == 1)  // a line needs two ends
        points = {{points[0].x - 4, points[0].y}, {points[0].x + 4, points[0].y}};
      if (!points.empty()) line(std::move(points), 2, style, tip);
    }
    return y + kPlotHeight + 34;
  }
};

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
        if (io->has("busbw_GBps", true)) io->field("busbw_GBps", row.GBps, 0, 1e12);
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
  Canvas canvas;
  double fastest = 0, slowest = 0, most = 0;
  for (const Curve& curve : curves)
    for (const auto& [bytes, timing] : curve.points) {
      canvas.sizes.push_back(bytes);
      most = std::max(most, timing->busbw_GBps);
      if (timing->time_us <= 0) continue;
      fastest = fastest == 0 ? timing->time_us : std::min(fastest, timing->time_us);
      slowest = std::max(slowest, timing->time_us);
    }
  for (const auto& [bytes, value] : expected) {
    canvas.sizes.push_back(bytes);
    most = std::max(most, value);
  }
  std::sort(canvas.sizes.begin(), canvas.sizes.end());
  canvas.sizes.erase(std::unique(canvas.sizes.begin(), canvas.sizes.end()), canvas.sizes.end());
  canvas.picture.title = title_of(report);
  canvas.picture.width = kLeft + kPlotWidth + kRight + 24;
  double y = 20 + kHead;
  canvas.text({kLeft, y}, canvas.picture.title, "", true, false, kHead);
  y += 16;
  if (canvas.sizes.empty()) canvas.text({kLeft, y + kText}, "nothing was measured", "muted");
  if (most > 0)
    y = canvas.panel(y, "bus bandwidth, GB/s", linear_axis(most), curves, &Timing::busbw_GBps,
                     expected);
  if (slowest > 0)
    y = canvas.panel(y + 6, "time, us", logarithmic_axis(fastest, slowest), curves,
                     &Timing::time_us);
  for (size_t c = 0; c < curves.size(); ++c, y += 17) {
    canvas.line({{kLeft, y + 6}, {kLeft + 26, y + 6}}, 2, format("curve{}", c % kColours));
    canvas.text({kLeft + 34, y + 10}, curves[c].name);
  }
  if (!expected.empty()) {
    canvas.line({{kLeft, y + 6}, {kLeft + 26, y + 6}}, 1.5, "expected");
    canvas.text({kLeft + 34, y + 10}, "expected bus bandwidth");
    y += 17;
  }
  canvas.picture.height = y + 20;
  return write_svg(canvas.picture);
}

// A curve in characters: bus bandwidth over size, one column block per size, one letter per series.

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
