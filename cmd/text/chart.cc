#include "cmd/text/chart.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/format.h"
#include "cmd/text/sizes.h"
#include "cmd/text/svg.h"

namespace collctl::cmd {

namespace {

constexpr double kLeft = 84, kRight = 48, kWidth = 760, kText = 11, kHead = 13;
constexpr double kLaneHeight = 16, kLaneName = 34;
constexpr double kLeastDrawn = 1e-12, kMostDrawn = 1e18;  // what others say has no bounds
constexpr size_t kColours = 8;  // path.curve0 .. path.curve7 of the style sheet

// From a value to its part of the height, and the values that are named beside it.
struct Axis {
  bool logarithmic = false;
  double low = 0, high = 1;
  std::vector<double> marks = {};

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
  Axis axis{.logarithmic = true};
  const int first = int(std::floor(std::log10(lowest)));
  const int last = std::max(int(std::ceil(std::log10(highest))), first + 1);
  axis.low = std::pow(10, first);
  axis.high = std::pow(10, last);
  for (int power = first; power <= last; ++power) axis.marks.push_back(std::pow(10, power));
  return axis;
}

bool is_drawn(double value) {
  return value >= kLeastDrawn && value <= kMostDrawn;
}

std::string style_of(size_t colour) {
  return format("curve{}", colour % kColours);
}

class ChartDrawing {
 public:
  explicit ChartDrawing(const Chart& chart) : chart_(chart) {}

  std::string draw() {
    picture_.title = chart_.title;
    picture_.width = kLeft + kWidth + kRight;
    y_ = 20 + kHead;
    text({kLeft, y_}, chart_.title, "", true, kHead);
    y_ += 16;
    for (const ChartPanel& panel : chart_.panels) add(panel);
    if (!chart_.lanes.empty()) add_lanes();
    for (const ChartCurve& curve : chart_.list) name(curve);
    picture_.height = y_ + 14;
    return write_svg(picture_);
  }

 private:
  double x_of(double x) const {
    const double part =
        chart_.high > chart_.low ? (x - chart_.low) / (chart_.high - chart_.low) : 0.5;
    return kLeft + kWidth * std::clamp(part, 0.0, 1.0);
  }

  void text(Point at, const std::string& what, const char* style = "", bool bold = false,
            double size = kText) {
    picture_.texts.push_back({at, fitted_text(what, kWidth, size, bold), style, size, bold});
  }
  void line(std::vector<Point> points, double width, const std::string& style,
            const std::string& tip = "") {
    picture_.lines.push_back({std::move(points), width, style, tip});
  }
  void name(const ChartCurve& curve) {
    line({{kLeft, y_ + 6}, {kLeft + 26, y_ + 6}}, curve.expected ? 1.5 : 2, style(curve));
    text({kLeft + kLaneName, y_ + 10}, curve.name);
    y_ += kLaneHeight;
  }
  static std::string style(const ChartCurve& curve) {
    return curve.expected ? "expected" : style_of(curve.colour);
  }

  // Below what stands above; no text over the next one, and none beyond the right edge.
  void add_marks(double y) {
    double free = 0;
    for (const ChartMark& mark : chart_.marks) {
      const double width = text_width(mark.text, kText, false);
      const double at = std::min(x_of(mark.x) - width / 2, kLeft + kWidth + kRight - 4 - width);
      if (at < free) continue;
      text({at, y}, mark.text, "muted");
      free = at + width + 8;
    }
  }

  void add(const ChartPanel& panel) {
    double most = 0, least = std::numeric_limits<double>::infinity();
    for (const ChartCurve& curve : panel.curves)
      for (const ChartPoint& point : curve.points) {
        if (!is_drawn(point.y)) continue;
        most = std::max(most, point.y);
        least = std::min(least, point.y);
      }
    if (most <= 0) return;
    const Axis axis = panel.logarithmic ? logarithmic_axis(least, most) : linear_axis(most);
    text({kLeft, y_ + kHead}, panel.title, "", true, kHead - 1);
    y_ += kHead + 12;
    for (const double mark : axis.marks) {
      const double at = y_ + chart_.height * (1 - axis.at(mark));
      line({{kLeft, at}, {kLeft + kWidth, at}}, 0.5, "sys");
      const std::string label = format("{:g}", mark);
      text({kLeft - 8 - text_width(label, kText, false), at + kText * 0.36}, label, "muted");
    }
    for (const ChartCurve& curve : panel.curves) add(curve, axis);
    add_marks(y_ + chart_.height + 18);
    y_ += chart_.height + (chart_.marks.empty() ? 12 : 32);
    if (!panel.named) return;
    for (const ChartCurve& curve : panel.curves) name(curve);
    if (panel.more > 0) {
      text({kLeft + kLaneName, y_ + 10}, format("and {} more", panel.more), "muted");
      y_ += kLaneHeight;
    }
    y_ += 12;
  }

  void add(const ChartCurve& curve, const Axis& axis) {
    std::vector<Point> points;
    std::string tip = curve.name;
    for (const ChartPoint& point : curve.points) {
      if (!is_drawn(point.y) && (point.y != 0 || axis.logarithmic)) continue;
      points.push_back({x_of(point.x), y_ + chart_.height * (1 - axis.at(point.y))});
      if (!point.when.empty()) tip += format("\n{}: {}", point.when, four_digits(point.y));
    }
    if (points.size() == 1)  // a line needs two ends
      points = {{points[0].x - 4, points[0].y}, {points[0].x + 4, points[0].y}};
    if (!points.empty()) line(std::move(points), curve.expected ? 1.5 : 2, style(curve), tip);
  }

  void add_lanes() {
    text({kLeft, y_ + kHead}, chart_.lanes_title, "", true, kHead - 1);
    y_ += kHead + 12;
    for (const ChartLane& lane : chart_.lanes) {
      text({kLeft, y_ + 10}, lane.name, "muted");
      y_ += kLaneHeight;
      const double middle = y_ + kLaneHeight / 2;
      line({{kLeft, middle}, {kLeft + kWidth, middle}}, 0.5, "sys");
      for (const ChartLane::Span& span : lane.spans)
        line({{x_of(span.from), middle}, {std::max(x_of(span.to), x_of(span.from) + 2), middle}}, 5,
             style_of(lane.colour), span.tip);
      for (const ChartLane::Tick& tick : lane.ticks)
        line({{x_of(tick.x), middle - 7}, {x_of(tick.x), middle + 7}}, 2.5,
             tick.fault ? "fault" : style_of(lane.colour), tick.tip);
      y_ += kLaneHeight + 2;
    }
    add_marks(y_ + 12);
    y_ += chart_.marks.empty() ? 8 : 26;
  }

  const Chart& chart_;
  Picture picture_;
  double y_ = 0;
};

}  // namespace

std::string chart_svg(const Chart& chart) {
  return ChartDrawing(chart).draw();
}

}  // namespace collctl::cmd
