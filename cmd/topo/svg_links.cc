// Links between the picture's GPUs once they have their places, and its legend.
#include <algorithm>
#include <set>

#include "base/format.h"
#include "cmd/topo/svg_plane.h"

namespace collctl::cmd {
namespace {

using namespace topology;

std::string fabric_words(const Fabric& fabric) {
  return counted(size_t(fabric.count), fabric.xgmi ? "xGMI link" : "NVLink") +
         format(", {:.4g} GB/s", fabric.gbps);
}

bool overlap(const Box& a, const Box& b) {
  return a.x < b.right() && b.x < a.right() && a.y < b.bottom() && b.y < a.bottom();
}

bool is_free(const Picture& picture, const Box& box) {
  return std::ranges::none_of(picture.texts,
                              [&](const PictureText& text) { return overlap(text.box(), box); });
}

// One bar for all NVSwitches of a host, as the planner sees them.
void draw_switches(Plane& plane) {
  std::map<int, std::vector<const Fabric*>> by_host;
  for (const Fabric& fabric : plane.parts.fabrics)
    if (fabric.to < 0 && plane.gpus.count(fabric.from) != 0)
      by_host[plane.view.graph.nodes[size_t(fabric.from)].host].push_back(&fabric);
  if (by_host.empty()) return;
  const double top = plane.bottom + 44;
  for (const auto& [host, fabrics] : by_host) {
    double left = 1e9, right = 0;
    for (const Fabric* fabric : fabrics) {
      const Box& gpu = plane.gpus[fabric->from];
      left = std::min(left, gpu.x);
      right = std::max(right, gpu.right());
      const double width = line_width(fabric->gbps);
      plane.picture.lines.push_back({{{gpu.middle(), gpu.bottom()}, {gpu.middle(), top}},
                                     width,
                                     fabric->xgmi ? "xgmi" : "nvl",
                                     fabric_words(*fabric),
                                     false,
                                     false});
      const double x = gpu.middle() + width / 2 + 6;
      plane.text({x, plane.bottom + 19},
                 counted(size_t(fabric->count), fabric->xgmi ? "link" : "NVLink"), kSmall);
      plane.text({x, plane.bottom + 33}, format("{:.4g} GB/s", fabric->gbps), kSmall, false,
                 "muted");
    }
    const Box bar{left, top, right - left, 30};
    plane.picture.boxes.push_back({bar, "nvs", "", false, false});
    const int count = plane.parts.nvswitches;
    plane.text({bar.middle(), bar.y + 20}, count > 1 ? format("{} NVSwitches", count) : "NVSwitch",
               kTitle, true, "", true);
  }
  plane.bottom = top + 30;
}

struct Arc {
  int a = 0, b = 0;
  const Fabric* fabric = nullptr;
  double x_a = 0, x_b = 0;
};

// Each pair of GPUs once, ends spread along the lower edges so that no two meet.
std::vector<Arc> make_arcs(const Plane& plane) {
  std::map<std::pair<int, int>, const Fabric*> pairs;
  for (const Fabric& fabric : plane.parts.fabrics) {
    if (fabric.to < 0 || plane.gpus.count(fabric.from) == 0 || plane.gpus.count(fabric.to) == 0)
      continue;
    int a = fabric.from, b = fabric.to;
    if (a == b) continue;
    if (plane.gpus.at(a).x > plane.gpus.at(b).x) std::swap(a, b);
    const Fabric*& known = pairs[{a, b}];
    if (known == nullptr || known->gbps < fabric.gbps) known = &fabric;
  }
  std::vector<Arc> arcs;
  for (const auto& [ends, fabric] : pairs) arcs.push_back({ends.first, ends.second, fabric, 0, 0});
  for (const auto& [gpu, box] : plane.gpus) {
    std::vector<std::pair<double, double*>> ends;  // where the other one is, and our end
    for (Arc& arc : arcs) {
      if (arc.a == gpu) ends.emplace_back(plane.gpus.at(arc.b).middle(), &arc.x_a);
      if (arc.b == gpu) ends.emplace_back(plane.gpus.at(arc.a).middle(), &arc.x_b);
    }
    // Nearest outside: arcs to the same side then lie inside each other.
    const double here = box.middle();
    std::ranges::sort(ends, [&](const auto& p, const auto& q) {
      const bool p_left = p.first < here, q_left = q.first < here;
      return p_left != q_left ? p_left : p.first > q.first;
    });
    for (size_t i = 0; i < ends.size(); ++i)
      *ends[i].second = box.x + box.w * double(i + 1) / double(ends.size() + 1);
  }
  return arcs;
}

void draw_arcs(Plane& plane) {
  std::vector<Arc> arcs = make_arcs(plane);
  if (arcs.empty()) return;
  double longest = 1, lowest = plane.bottom;
  std::set<std::string> kinds;
  for (const Arc& arc : arcs) {
    longest = std::max(longest, arc.x_b - arc.x_a);
    kinds.insert(fabric_words(*arc.fabric));
  }
  const double most = std::min(240.0, 70 + longest / 8);
  std::vector<PictureText> labels;
  for (const Arc& arc : arcs) {
    const double y_a = plane.gpus[arc.a].bottom(), y_b = plane.gpus[arc.b].bottom();
    const double depth = 40 + (most - 40) * (arc.x_b - arc.x_a) / longest;
    const double base = std::max(plane.bottom, std::max(y_a, y_b)) + depth;
    plane.picture.lines.push_back(
        {{{arc.x_a, y_a}, {arc.x_a, base}, {arc.x_b, base}, {arc.x_b, y_b}},
         line_width(arc.fabric->gbps),
         arc.fabric->xgmi ? "xgmi" : "nvl",
         fabric_words(*arc.fabric),
         true,
         false});
    // Three quarters down is where such a curve ends.
    const double floor = 0.25 * std::max(y_a, y_b) + 0.75 * base;
    lowest = std::max(lowest, floor);
    // Below the line.
    PictureText label{{(arc.x_a + arc.x_b) / 2, floor + line_width(arc.fabric->gbps) / 2 + 13},
                      fabric_words(*arc.fabric),
                      "",
                      kSmall,
                      false,
                      true,
                      false};
    labels.push_back(std::move(label));
  }
  plane.bottom = lowest + 22;
  if (kinds.size() == 1 && arcs.size() > 6) {
    const std::string words = format("each: {}", *kinds.begin());
    plane.text({plane.picture.width / 2, plane.bottom + 10}, words, kSmall, true, "", true);
    plane.bottom += 20;
    return;
  }
  for (PictureText& label : labels)
    if (arcs.size() <= 12 && is_free(plane.picture, label.box()))
      plane.picture.texts.push_back(std::move(label));
}

// The channel as a path over the places of its GPUs: to the right above, back to the left below.
void draw_ring(Plane& plane, const GraphChannel& ring) {
  std::vector<double> stops;
  for (const int gpu : ring.gpus)
    if (const auto found = plane.gpus.find(gpu); found != plane.gpus.end())
      stops.push_back(found->second.middle());
  if (stops.size() < 2 || stops.size() != ring.gpus.size()) return;
  const double y = plane.bottom + 84, lift = 46;
  const bool closed = ring.net_in < 0;
  const auto arc = [&](double from, double to) {
    const double bend = to > from ? -lift : lift;
    plane.picture.lines.push_back(
        {{{from, y}, {from + (to - from) / 4, y + bend}, {to - (to - from) / 4, y + bend}, {to, y}},
         3,
         "ring",
         "",
         true,
         false});
  };
  for (size_t i = 0; i + 1 < stops.size(); ++i) arc(stops[i], stops[i + 1]);
  if (closed) arc(stops.back(), stops.front());
  for (size_t i = 0; i < stops.size(); ++i) {
    plane.picture.boxes.push_back({{stops[i] - 34, y - 11, 68, 22}, "gpu", "", false, false});
    plane.text({stops[i], y + 4}, node_name(plane.view.graph, ring.gpus[i]), kSmall, true, "",
               true);
  }
  std::string words = "ring of channel 0";
  if (!closed)
    words += format(": from {} to {}", node_name(plane.view.graph, ring.net_in),
                    node_name(plane.view.graph, std::max(ring.net_out, ring.net_in)));
  plane.text({kMargin, y - lift - 14}, words, kTitle, true);
  plane.bottom = y + lift;
}

struct LegendEntry {
  std::string words, style;
  double width = 3;  // of the sample's line; 0: a box
  bool fault = false, assumed = false;
};

std::vector<LegendEntry> legend_entries(const Plane& plane) {
  std::vector<LegendEntry> entries;
  std::map<double, std::string> rates;
  for (const auto& [link, gbps] : plane.rates) {
    std::string& words = rates[gbps];
    if (words.empty() || link.size() < words.size()) words = link;
  }
  for (const auto& [gbps, link] : rates)
    if (entries.size() < 6)
      entries.push_back({format("PCIe {}: {:.4g} GB/s", link, gbps), "pci", line_width(gbps)});
  std::map<std::string, const Fabric*> fabrics;
  for (const Fabric& fabric : plane.parts.fabrics) fabrics[fabric_words(fabric)] = &fabric;
  for (const auto& [words, fabric] : fabrics)
    if (entries.size() < 12)
      entries.push_back({words, fabric->xgmi ? "xgmi" : "nvl", line_width(fabric->gbps)});
  const auto has_style = [&](const char* style) {
    return std::ranges::any_of(plane.picture.lines,
                               [&](const PictureLine& line) { return line.style == style; });
  };
  if (has_style("c2c")) entries.push_back({"C2C", "c2c", 5});
  if (plane.any_fault) entries.push_back({"degraded, or not as its equals", "pci", 4, true});
  if (plane.any_assumed) entries.push_back({"assumed, not read", "gpu", 0, false, true});
  return entries;
}

}  // namespace

void draw_fabrics(Plane& plane, const GraphChannel* ring) {
  draw_switches(plane);
  draw_arcs(plane);
  if (ring != nullptr) draw_ring(plane, *ring);
}

void draw_legend(Plane& plane) {
  constexpr double kSample = 34, kRow = 22;
  double x = kMargin, y = plane.bottom + 30;
  for (const LegendEntry& entry : legend_entries(plane)) {
    const double width = kSample + 8 + text_width(entry.words, kSmall, false) + 22;
    if (x > kMargin && x + width > plane.picture.width - kMargin) {
      x = kMargin;
      y += kRow;
    }
    if (entry.width > 0)
      plane.picture.lines.push_back(
          {{{x, y}, {x + kSample, y}}, entry.width, entry.style, "", false, entry.fault});
    else
      plane.picture.boxes.push_back({{x, y - 7, kSample, 14}, entry.style, "", false, true});
    plane.text({x + kSample + 8, y + 4}, entry.words, kSmall, false, "muted");
    x += width;
  }
  plane.bottom = y + 8;
}

}  // namespace collctl::cmd
