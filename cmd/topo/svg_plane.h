// Between the parts of the picture's layout: the words in the boxes (svg_words.cc), where the
// boxes went (svg_layout.cc), and what is drawn between them (svg_links.cc). Used by
// these only.
#pragma once
#include <map>

#include "cmd/text/svg.h"
#include "cmd/topo/parts.h"
#include "topology/search/search.h"

namespace collctl::cmd {

inline constexpr double kMargin = 24;
inline constexpr double kSmall = 11, kTitle = 13, kLineHeight = 14.5;

// One line of text in a box.
struct Words {
  std::string text = {};
  double size = kSmall;
  bool bold = false, muted = false, fault = false;
};
double height_of(const std::vector<Words>& lines);
// A GPU, a NIC, another device, or the interfaces of a CPU that have no PCI device; cut to `width`.
// `bridges`: switches that hold this device only, outermost first.
std::vector<Words> leaf_lines(const Part& part, const std::vector<const Part*>& bridges,
                              double width);
// A CPU or a switch.
std::vector<Words> head_lines(const Part& part, double width, bool several_hosts);
std::string link_words(const Part& part);  // "gen5 x16, 48 GB/s"
std::string tip_of(const Part& part);      // all that is known of it

// Line width by bandwidth: four times as fast is twice as wide.
double line_width(double gbps);

struct Plane {
  const TopoView& view;
  Parts parts;
  Picture picture;
  std::map<int, Box> gpus;              // by node of the graph
  double bottom = 0;                    // of all that was placed
  std::map<std::string, double> rates;  // "gen5 x16" -> GB/s, for the legend
  bool any_fault = false, any_assumed = false;

  void text(Point at, const std::string& words, double size, bool bold = false,
            const char* style = "", bool centred = false) {
    picture.texts.push_back({at, words, style, size, bold, centred, false});
  }
};

// NVSwitches, NVLinks between GPUs, and the ring; moves `bottom`.
void draw_fabrics(Plane& plane, const topology::GraphChannel* ring);
// Meaning of lines and colours; moves `bottom`.
void draw_legend(Plane& plane);

// A machine as a picture. Two steps, each a pure function: its parts (parts.h) are placed on a
// plane, that is written as SVG (cmd/text/svg.h). Threads: any.

// `ring`: a channel to draw as a path through its GPUs; may be null.
Picture make_picture(const TopoView& view, const topology::GraphChannel* ring);

inline std::string topo_svg(const TopoView& view, const topology::GraphChannel* ring) {
  return write_svg(make_picture(view, ring));
}

}  // namespace collctl::cmd
