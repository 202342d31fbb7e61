// The curves of a measurement as a picture: bus bandwidth and time over size.
#include <algorithm>
#include <cmath>

#include "base/format.h"
#include "base/record.h"
#include "cmd/report/read.h"
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

std::map<uint64_t, double> expected_busbw(const std::string& json) {
  struct Row {
    uint64_t bytes = 0;
    double GBps = 0;
  };
  std::vector<Row> rows;
  std::map<uint64_t, double> expected;
  auto io = Record::read(judgement_of(json).document);
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

}  // namespace collctl::cmd
