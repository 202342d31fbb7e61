// Curves as a picture: scales, names, marks, lanes.
#include "cmd/text/chart.h"

#include <limits>

#include "tests/catch.h"

namespace chart_tests {

using namespace collctl::cmd;

namespace {

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

Chart one_curve(std::vector<ChartPoint> points) {
  Chart chart{.title = "T"};
  chart.high = 10;
  chart.panels = {{.title = "speed", .curves = {{.name = "a", .points = std::move(points)}}}};
  return chart;
}

}  // namespace

TEST_CASE("chart: a curve lies between its axis' ends", "[text]") {
  const std::string svg = chart_svg(one_curve({{0, 0}, {5, 50, "then"}, {10, 100}}));
  // 84 is the left end, 760 wide; 100 is the highest mark, 150 above 0.
  CHECK(count(svg, "M84.0 224.0 L464.0 149.0 L844.0 74.0") == 1);
  CHECK(count(svg, ">100</text>") == 1);
  CHECK(count(svg, "then: 50") == 1);
}

TEST_CASE("chart: no panel without a value, a point alone is seen", "[text]") {
  for (const double value : {0.0, -1.0, std::numeric_limits<double>::infinity(),
                             std::numeric_limits<double>::quiet_NaN(), 5e-324, 1e300})
    for (const bool logarithmic : {false, true}) {
      Chart chart = one_curve({{0, value}});
      chart.panels[0].logarithmic = logarithmic;
      CHECK(count(chart_svg(chart), ">speed</text>") == 0);
    }
  const std::string svg = chart_svg(one_curve({{5, 7}}));
  CHECK(count(svg, "M460.0 ") == 1);
  CHECK(count(svg, "L468.0 ") == 1);
}

TEST_CASE("chart: marks do not cover each other, names stand where they are asked", "[text]") {
  Chart chart = one_curve({{0, 1}, {10, 2}});
  chart.marks = {{0, "begin"}, {0.1, "hidden"}, {10, "end"}};
  chart.list = chart.panels[0].curves;
  std::string svg = chart_svg(chart);
  CHECK(count(svg, ">begin</text>") == 1);
  CHECK(count(svg, ">hidden</text>") == 0);
  CHECK(count(svg, ">end</text>") == 1);
  CHECK(count(svg, ">a</text>") == 1);
  chart.panels[0].named = true;
  chart.panels[0].more = 3;
  chart.list.clear();
  svg = chart_svg(chart);
  CHECK(count(svg, ">a</text>") == 1);
  CHECK(count(svg, ">and 3 more</text>") == 1);
}

TEST_CASE("chart: a lane has what went on and what happened", "[text]") {
  Chart chart = one_curve({{0, 1}, {10, 2}});
  chart.lanes_title = "errors";
  ChartLane lane{.name = "gpu 1", .colour = 9};
  lane.spans.push_back({2, 4, "power cap"});
  lane.ticks.push_back({5, "xid 79", true});
  lane.ticks.push_back({50, "late"});  // beyond the end: at it
  chart.lanes = {lane};
  const std::string svg = chart_svg(chart);
  CHECK(count(svg, "power cap") == 1);
  CHECK(count(svg, "class=\"fault\"") == 1);
  CHECK(count(svg, "class=\"curve1\"") == 2);  // nine of eight colours
  CHECK(count(svg, "xid 79") == 1);
  CHECK(count(svg, "M844.0 ") == 1);
}

}  // namespace chart_tests
