// A picture of boxes, lines and texts on a plane, and how it is written as SVG. Texts are measured
// with the widths of a wide common font, so that narrower ones fit too. Lengths are pixels, y grows
// downwards. Pure; any thread.
#pragma once
#include <string>
#include <vector>

namespace collctl::cmd {

struct Point {
  double x = 0, y = 0;
};
struct Box {
  double x = 0, y = 0, w = 0, h = 0;
  double right() const { return x + w; }
  double bottom() const { return y + h; }
  double middle() const { return x + w / 2; }
};

// `style` is a class of the style sheet in svg.cc.
struct PictureBox {
  Box box;
  std::string style, tip;  // tip: shown by viewers when the pointer rests there
  bool fault = false, assumed = false;
};
struct PictureText {
  Point at;  // left end of the baseline, or its middle
  std::string text, style;
  double size = 11;
  bool bold = false, centred = false, fault = false;
  bool turned = false;  // goes up to the right from `at`
  Box box() const;      // what it covers
};
struct PictureLine {
  std::vector<Point> points;  // four of a curve: a cubic Bezier
  double width = 1;
  std::string style, tip;
  bool curve = false, fault = false;
};
struct Picture {
  double width = 0, height = 0;
  std::string title;
  std::vector<PictureLine> lines;  // below all boxes
  std::vector<PictureBox> boxes;   // containers before what they hold
  std::vector<PictureText> texts;
};

double text_width(const std::string& text, double size, bool bold);
// Shortened with "..." to fit.
std::string fitted_text(const std::string& text, double width, double size, bool bold);

std::string write_svg(const Picture& picture);

}  // namespace collctl::cmd
