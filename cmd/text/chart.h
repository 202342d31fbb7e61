// Curves over one axis as a picture: panels below each other, each with a scale of its own, and
// lanes for what happened when. Pure; any thread.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

namespace collctl::cmd {

struct ChartPoint {
  double x = 0, y = 0;
  std::string when = {};  // in the curve's tip, before the value; empty: it is not in it
};
struct ChartCurve {
  std::string name = {};
  size_t colour = 0;
  std::vector<ChartPoint> points = {};
  bool expected = false;  // dashed, without a colour of its own
};
struct ChartPanel {
  std::string title = {};
  std::vector<ChartCurve> curves = {};  // without a value above 0 there is no panel
  bool logarithmic = false;
  bool named = false;  // names of the curves stand below it; else in the chart's list
  size_t more = 0;     // curves that are left out
};
// For one curve: times in which something went on, and moments.
struct ChartLane {
  struct Span {
    double from = 0, to = 0;
    std::string tip;
  };
  struct Tick {
    double x = 0;
    std::string tip;
    bool fault = false;
  };
  std::string name = {};
  size_t colour = 0;
  std::vector<Span> spans = {};
  std::vector<Tick> ticks = {};
};
struct ChartMark {  // below each panel
  double x = 0;
  std::string text;
};
struct Chart {
  std::string title = {};
  double low = 0, high = 1;  // of x; where they are the same all stands in the middle
  std::vector<ChartMark> marks = {};
  std::vector<ChartPanel> panels = {};
  std::string lanes_title = {};
  std::vector<ChartLane> lanes = {};
  std::vector<ChartCurve> list = {};  // names below all of it; points count nothing
  double height = 150;                // of a panel
};
std::string chart_svg(const Chart& chart);

}  // namespace collctl::cmd
