// Speeds over time as a picture: a panel for each check, a curve for each of its hosts and NICs.
#include <algorithm>

#include "base/format.h"
#include "cmd/check/trend.h"
#include "cmd/text/chart.h"
#include "cmd/text/sizes.h"

namespace collctl::cmd {
namespace {

constexpr size_t kMostOfPanel = 8;  // as there are colours
constexpr size_t kMostPanels = 24;

std::string name_of(const TrendFigure& figure) {
  std::string name = subject_name(figure.at);
  if (!figure.hosts.empty()) name = figure.hosts;
  name += format(", {}", figure.level);
  return figure.declines ? name + ", declines" : name;
}

}  // namespace

std::string trend_svg(const Trend& trend) {
  Chart chart;
  for (const TrendFigure& figure : trend.figures) {  // those that decline first
    if (figure.values.size() < 2) continue;
    const std::string title = format("{}, GB/s", figure.what);
    auto panel = std::ranges::find(chart.panels, title, &ChartPanel::title);
    if (panel == chart.panels.end() && chart.panels.size() == kMostPanels) continue;
    if (panel == chart.panels.end())
      panel = chart.panels.insert(panel, {.title = title, .named = true});
    if (panel->curves.size() == kMostOfPanel) {
      ++panel->more;
      continue;
    }
    ChartCurve curve{.name = name_of(figure), .colour = panel->curves.size()};
    for (const auto& [time, value] : figure.values)
      curve.points.push_back({double(time), value, utc_date(time)});
    panel->curves.push_back(std::move(curve));
  }
  if (chart.panels.empty()) return "";
  const int64_t first = trend.runs.front().unix_s, last = trend.runs.back().unix_s;
  chart.title = format("Speeds from {} to {}", utc_date(first), utc_date(last));
  chart.low = double(first);
  chart.high = double(last);
  chart.height = 120;
  return chart_svg(chart);
}

}  // namespace collctl::cmd
