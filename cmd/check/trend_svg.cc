// Speeds over time as a picture: a panel for each check, a curve for each of its hosts and NICs.
#include <algorithm>

#include "base/format.h"
#include "cmd/check/trend.h"
#include "cmd/text/sizes.h"
#include "cmd/text/svg.h"

namespace collctl::cmd {
namespace {

constexpr double kTrendLeft = 84, kTrendWidth = 760, kTrendRight = 24, kTrendHeight = 120,
                 kTrendText = 11, kTrendHead = 13;
constexpr size_t kTrendColours = 8;  // path.curve0 .. path.curve7 of the style sheet
constexpr size_t kMostPanels = 24;

struct TrendPanel {
  std::string what;
  std::vector<const TrendFigure*> curves;  // at most kTrendColours, those that decline first
  size_t more = 0;
};

std::vector<TrendPanel> panels_of(const Trend& trend) {
  std::vector<TrendPanel> panels;
  for (const TrendFigure& figure : trend.figures) {
    if (figure.values.size() < 2) continue;
    auto at = std::find_if(panels.begin(), panels.end(),
                           [&](const TrendPanel& panel) { return panel.what == figure.what; });
    if (at == panels.end()) at = panels.insert(panels.end(), {figure.what, {}});
    if (at->curves.size() < kTrendColours)
      at->curves.push_back(&figure);
    else
      ++at->more;
  }
  if (panels.size() > kMostPanels) panels.resize(kMostPanels);
  return panels;
}

std::string name_of(const TrendFigure& figure) {
  std::string name = subject_name(figure.at);
  if (!figure.hosts.empty()) name = figure.hosts;
  name += format(", {}", figure.level);
  return figure.declines ? name + ", declines" : name;
}

class Drawing {
 public:
  Drawing(const Trend& trend, Picture& picture)
      : picture_(picture),
        begin_(trend.runs.front().unix_s),
        length_(double(std::max<int64_t>(1, trend.runs.back().unix_s - begin_))) {}
  double panel(double y, const TrendPanel& panel) {
    text({kTrendLeft, y + kTrendHead}, format("{}, GB/s", panel.what), "", true);
    y += kTrendHead + 10;
    double most = 0;
    for (const TrendFigure* figure : panel.curves)
      for (const auto& [time, value] : figure->values) most = std::max(most, value);
    for (const double mark : {0.0, most / 2, most}) {
      const double at = y + kTrendHeight * (1 - (most > 0 ? mark / most : 0));
      line({{kTrendLeft, at}, {kTrendLeft + kTrendWidth, at}}, 0.5, "sys", "");
      const std::string label = four_digits(mark);
      text({kTrendLeft - 8 - text_width(label, kTrendText, false), at + kTrendText * 0.36}, label,
           "muted");
    }
    for (size_t c = 0; c < panel.curves.size(); ++c) {
      const TrendFigure& figure = *panel.curves[c];
      std::vector<Point> points;
      std::string tip = name_of(figure);
      for (const auto& [time, value] : figure.values) {
        points.push_back({kTrendLeft + kTrendWidth * double(time - begin_) / length_,
                          y + kTrendHeight * (1 - (most > 0 ? value / most : 0))});
        tip += format("\n{}: {}", utc_date(time), four_digits(value));
      }
      line(std::move(points), 2, format("curve{}", c), tip);
    }
    y += kTrendHeight + 10;
    for (size_t c = 0; c < panel.curves.size(); ++c, y += 16) {
      line({{kTrendLeft, y + 6}, {kTrendLeft + 26, y + 6}}, 2, format("curve{}", c), "");
      text({kTrendLeft + 34, y + 10}, name_of(*panel.curves[c]), "");
    }
    if (panel.more > 0) {
      text({kTrendLeft + 34, y + 10}, format("and {} more", panel.more), "muted");
      y += 16;
    }
    return y + 14;
  }

 private:
  void text(Point at, const std::string& what, const char* style, bool bold = false) {
    picture_.texts.push_back(
        {at, fitted_text(what, kTrendWidth, kTrendText, bold), style, kTrendText, bold});
  }
  void line(std::vector<Point> points, double width, const std::string& style,
            const std::string& tip) {
    picture_.lines.push_back({std::move(points), width, style, tip});
  }
  Picture& picture_;
  int64_t begin_;
  double length_;  // seconds
};

}  // namespace

std::string trend_svg(const Trend& trend) {
  const std::vector<TrendPanel> panels = panels_of(trend);
  if (panels.empty()) return "";
  Picture picture;
  picture.title = format("Speeds from {} to {}", utc_date(trend.runs.front().unix_s),
                         utc_date(trend.runs.back().unix_s));
  picture.width = kTrendLeft + kTrendWidth + kTrendRight;
  picture.texts.push_back({{kTrendLeft, 20 + kTrendHead}, picture.title, "", kTrendHead, true});
  double y = 20 + kTrendHead + 16;
  Drawing drawing(trend, picture);
  for (const TrendPanel& panel : panels) y = drawing.panel(y, panel);
  picture.height = y + 10;
  return write_svg(picture);
}

}  // namespace collctl::cmd
