// Where everything of the picture goes: NUMA nodes side by side, below each its switches level by
// level, below a switch its devices in columns, the GPUs all on one line at the bottom.
#include <algorithm>
#include <cmath>

#include "base/format.h"
#include "cmd/topo/svg_plane.h"

namespace collctl::cmd {
namespace {

using namespace topology;

constexpr double kLeafWidth = 160, kGutter = 20, kColumn = kGutter + kLeafWidth;
constexpr double kGap = 12, kPad = 14;
constexpr double kLevelGap = 28, kRowWidth = 1800;
constexpr size_t kStack = 4;  // devices without GPUs are stacked so high

// A device, with the switches that hold nothing else, outermost first.
struct Leaf {
  const Part* part = nullptr;
  std::vector<const Part*> bridges;
  bool is_gpu() const { return part->kind == PartKind::gpu; }
  bool fault() const {
    return !part->marks.empty() || std::ranges::any_of(bridges, [](const Part* bridge) {
      return !bridge->marks.empty();
    }) || std::ranges::any_of(part->nets, [](const PartNet& net) { return !net.marks.empty(); });
  }
  std::vector<Words> lines() const { return leaf_lines(*part, bridges, kLeafWidth - 14); }
};

// A switch below another one that holds one device and nothing else is only a line of that device.
Leaf single_leaf(const Part& bridge) {
  Leaf leaf{&bridge, {}};
  while (leaf.part->kind == PartKind::bridge && leaf.part->below.size() == 1) {
    leaf.bridges.push_back(leaf.part);
    leaf.part = &leaf.part->below[0];
  }
  const bool single = leaf.part->kind != PartKind::bridge && leaf.part->below.empty();
  return single ? leaf : Leaf{};
}

// A CPU or a switch with what hangs below it.
struct Item {
  const Part* part = nullptr;
  std::vector<Item> bridges;
  std::vector<std::vector<Leaf>> columns;  // top down, a GPU last
  double width = 0;
  Box box;
};

void sort_out(const Part& parent, Item& to, std::vector<Leaf>& gpus, std::vector<Leaf>& rest);

Item make_item(const Part& part) {
  Item item;
  item.part = &part;
  std::vector<Leaf> gpus, rest;
  sort_out(part, item, gpus, rest);
  const size_t count = std::max(gpus.size(), (rest.size() + kStack - 1) / kStack);
  item.columns.resize(count);
  for (size_t i = 0; i < rest.size(); ++i) item.columns[i * count / rest.size()].push_back(rest[i]);
  for (size_t i = 0; i < gpus.size(); ++i) item.columns[i].push_back(gpus[i]);
  // In a column of its own: there may be many of them.
  if (part.kind == PartKind::cpu && !part.nets.empty()) item.columns.push_back({{&part, {}}});
  double width = double(item.columns.size()) * kColumn;
  for (const Item& bridge : item.bridges) width += bridge.width;
  const size_t units = item.columns.size() + item.bridges.size();
  if (units > 1) width += double(units - 1) * kGap;
  item.width = std::max(width, kColumn);
  return item;
}

void sort_out(const Part& parent, Item& to, std::vector<Leaf>& gpus, std::vector<Leaf>& rest) {
  for (const Part& part : parent.below) {
    const bool bridge = part.kind == PartKind::bridge;
    Leaf leaf{&part, {}};
    if (bridge) leaf = parent.kind == PartKind::bridge ? single_leaf(part) : Leaf{};
    if (leaf.part == nullptr) {
      to.bridges.push_back(make_item(part));
      continue;
    }
    const Part& device = *leaf.part;
    (leaf.is_gpu() ? gpus : rest).push_back(std::move(leaf));
    sort_out(device, to, gpus, rest);  // what hangs below a device is drawn beside it
  }
}

// NUMA nodes beside each other.
struct Row {
  std::vector<Item> items;
  std::vector<double> level_height, level_y;
  double top = 0, gpu_top = 0, bottom = 0;
};

class Layout {
 public:
  explicit Layout(const TopoView& view) : plane_{view, machine_parts(view), {}, {}, 0, {}} {}

  Picture make(const GraphChannel* ring) {
    make_rows();
    place_title();
    for (size_t i = 0; i < rows_.size(); ++i) place_row(rows_[i]);
    join_cpus();
    draw_fabrics(plane_, ring);
    draw_legend(plane_);
    plane_.picture.height = plane_.bottom + kMargin;
    return std::move(plane_.picture);
  }

 private:
  static double outer(const Item& item) { return item.width + 2 * kPad; }

  void make_rows() {
    double x = kMargin, widest = 0;
    const bool may_wrap = plane_.parts.fabrics.empty();
    for (const Part& cpu : plane_.parts.cpus) {
      Item item = make_item(cpu);
      if (rows_.empty() || (may_wrap && x + outer(item) > kRowWidth)) {
        rows_.emplace_back();
        x = kMargin;
      }
      x += outer(item) + 2 * kGap;
      widest = std::max(widest, x);
      rows_.back().items.push_back(std::move(item));
    }
    const double title = text_width(machine_summary(plane_.view), kTitle, false) + 2 * kMargin;
    plane_.picture.width = std::max({widest + kMargin - 2 * kGap, title, 560.0});
  }

  void place_title() {
    Picture& picture = plane_.picture;
    const std::string& source = plane_.view.source;
    picture.title = plain(source.substr(source.rfind('/') + 1));  // all of it without a '/'
    plane_.text({kMargin, kMargin + 16},
                fitted_text(picture.title, picture.width - 2 * kMargin, 18, true), 18, true);
    plane_.text({kMargin, kMargin + 38}, machine_summary(plane_.view), kTitle, false, "muted");
    plane_.bottom = kMargin + 46;
  }

  void place_row(Row& row) {
    row.top = plane_.bottom + (plane_.parts.cpus.size() > 1 ? 44 : 14);
    for (const Item& item : row.items) measure(item, 0, row);
    double y = row.top + kPad;
    for (const double height : row.level_height) {
      row.level_y.push_back(y);
      y += height + kLevelGap;
    }
    for (const Item& item : row.items) row.gpu_top = std::max(row.gpu_top, gpu_top(item, 0, row));
    const double total = [&] {
      double sum = -2 * kGap;
      for (const Item& item : row.items) sum += outer(item) + 2 * kGap;
      return sum;
    }();
    double x = (plane_.picture.width - total) / 2;
    for (Item& item : row.items) {
      place(item, x + kPad, 0, row);
      x += outer(item) + 2 * kGap;
    }
    for (const Item& item : row.items)
      plane_.picture.boxes.push_back(
          {{item.box.x - kPad, row.top, outer(item), row.bottom + kPad - row.top},
           "cpu",
           "",
           false,
           false});
    plane_.bottom = row.bottom + kPad;
  }

  void measure(const Item& item, size_t depth, Row& row) const {
    if (row.level_height.size() <= depth) row.level_height.resize(depth + 1, 0);
    row.level_height[depth] = std::max(row.level_height[depth], height_of(head(item)));
    for (const Item& bridge : item.bridges) measure(bridge, depth + 1, row);
  }

  std::vector<Words> head(const Item& item) const {
    return head_lines(*item.part, item.width - 16, plane_.parts.several_hosts);
  }
  static double leaves_top(size_t depth, const Row& row) {
    return row.level_y[depth] + row.level_height[depth] + kLevelGap;
  }
  // Below all that stands in a column above its GPU.
  double gpu_top(const Item& item, size_t depth, const Row& row) const {
    double lowest = leaves_top(depth, row);
    for (const auto& column : item.columns) {
      if (!column.back().is_gpu()) continue;
      double y = leaves_top(depth, row);
      for (size_t i = 0; i + 1 < column.size(); ++i) y += height_of(column[i].lines()) + kGap;
      lowest = std::max(lowest, y);
    }
    for (const Item& bridge : item.bridges)
      lowest = std::max(lowest, gpu_top(bridge, depth + 1, row));
    return lowest;
  }

  void place(Item& item, double x, size_t depth, Row& row) {
    const std::vector<Words> lines = head(item);
    const bool cpu = item.part->kind == PartKind::cpu;
    item.box = {x, row.level_y[depth], item.width, height_of(lines)};
    row.bottom = std::max(row.bottom, item.box.bottom());
    add_box(item.box, cpu ? "head" : "bridge", *item.part, lines, true, !item.part->marks.empty());
    for (Item& bridge : item.bridges) {
      place(bridge, x, depth + 1, row);
      add_line({{bridge.box.middle(), item.box.bottom()}, {bridge.box.middle(), bridge.box.y}},
               *bridge.part, !bridge.part->marks.empty());
      x += bridge.width + kGap;
    }
    for (const auto& column : item.columns) {
      place_column(column, x, item, leaves_top(depth, row), row);
      x += kColumn + kGap;
    }
  }

  void place_column(const std::vector<Leaf>& column, double x, const Item& parent, double y,
                    Row& row) {
    const double trunk = x + kGutter / 2 - 3;
    for (const Leaf& leaf : column) {
      const Part& part = *leaf.part;
      const std::vector<Words> lines = leaf.lines();
      // Without a trunk beside it, it stands in the middle.
      const double left = x + (column.size() == 1 ? kGutter / 2 : kGutter);
      const Box box{left, leaf.is_gpu() ? row.gpu_top : y, kLeafWidth, height_of(lines)};
      y = box.bottom() + kGap;
      row.bottom = std::max(row.bottom, box.bottom());
      const bool other = part.kind == PartKind::other;
      add_box(box,
              leaf.is_gpu() ? "gpu"
              : other       ? "other"
                            : "nic",
              part, lines, false, leaf.fault());
      if (leaf.is_gpu() && part.node != nullptr)
        plane_.gpus[int(part.node - plane_.view.graph.nodes.data())] = box;
      if (leaf.is_gpu() && !part.pci->gpu->c2c.empty()) draw_c2c(part, box, row);
      if (column.size() == 1)
        return add_line({{box.middle(), parent.box.bottom()}, {box.middle(), box.y}}, part,
                        leaf.fault());
      const double at = box.y + box.h / 2;
      add_line({{trunk, at}, {box.x, at}}, part, leaf.fault());
      if (&leaf == &column.back())
        plane_.picture.lines.push_back(
            {{{trunk, parent.box.bottom()}, {trunk, at}}, 2, "trunk", "", false, false});
    }
  }

  // From the CPU's head down beside the column.
  void draw_c2c(const Part& part, const Box& box, const Row& row) {
    double gbps = 0;
    for (const C2cLink& link : part.pci->gpu->c2c)
      gbps += double(link.mbytes_per_s) * link.count / 1000;
    const double x = box.right() + kGap / 2 + 1, y = box.y + box.h / 2;
    plane_.picture.lines.push_back({{{x, row.level_y[0] + 10}, {x, y}, {box.right(), y}},
                                    std::min(line_width(gbps), 8.0),
                                    "c2c",
                                    format("C2C {:.4g} GB/s", gbps),
                                    false,
                                    false});
  }

  void add_line(std::vector<Point> points, const Part& part, bool fault) {
    if (part.pci == nullptr) {  // interfaces without a PCI device
      plane_.picture.lines.push_back({std::move(points), 1, "trunk", "", false, false});
      return;
    }
    if (!fault) plane_.rates[part.link] = part.gbps;
    plane_.picture.lines.push_back(
        {std::move(points), line_width(part.gbps), "pci", link_words(part), false, fault});
  }

  void add_box(const Box& box, const char* style, const Part& part, const std::vector<Words>& lines,
               bool centred, bool fault) {
    plane_.any_fault = plane_.any_fault || fault;
    plane_.any_assumed = plane_.any_assumed || part.assumed;
    plane_.picture.boxes.push_back({box, style, tip_of(part), fault, part.assumed});
    double y = box.y + 4;
    for (const Words& line : lines) {
      y += line.size > kSmall ? 18 : kLineHeight;
      plane_.picture.texts.push_back({{centred ? box.middle() : box.x + 7, y - 1},
                                      line.text,
                                      line.muted ? "muted" : "",
                                      line.size,
                                      line.bold,
                                      centred,
                                      line.fault});
    }
  }

  // The links between NUMA nodes are a full mesh: one line stands for it.
  void join_cpus() {
    if (plane_.parts.cpus.size() < 2) return;
    Picture& picture = plane_.picture;
    const double width = plane_.parts.cpu_gbps > 0 ? line_width(plane_.parts.cpu_gbps) : 3;
    for (const Row& row : rows_) {
      const double y = row.top - 16;
      const double left = row.items.front().box.middle(), right = row.items.back().box.middle();
      const double from = rows_.size() > 1 ? kMargin / 2 : left;
      picture.lines.push_back({{{from, y}, {right, y}}, width, "sys", "", false, false});
      for (const Item& item : row.items)
        picture.lines.push_back({{{item.box.middle(), y}, {item.box.middle(), row.top}},
                                 width,
                                 "sys",
                                 "",
                                 false,
                                 false});
    }
    if (rows_.size() > 1)
      picture.lines.push_back(
          {{{kMargin / 2, rows_.front().top - 16}, {kMargin / 2, rows_.back().top - 16}},
           width,
           "sys",
           "",
           false,
           false});
    const Row& first = rows_.front();
    const std::string words = plane_.parts.cpu_gbps > 0
                                  ? format("{:.4g} GB/s between NUMA nodes", plane_.parts.cpu_gbps)
                                  : "between NUMA nodes: speed unknown";
    const double middle = (first.items.front().box.middle() + first.items.back().box.middle()) / 2;
    plane_.text({middle, first.top - 16 - width / 2 - 4}, words, kSmall, false, "muted", true);
  }

  Plane plane_;
  std::vector<Row> rows_;
};

}  // namespace

double line_width(double gbps) {
  return std::clamp(0.55 * std::sqrt(gbps), 1.0, 14.0);
}

Picture make_picture(const TopoView& view, const GraphChannel* ring) {
  return Layout(view).make(ring);
}

}  // namespace collctl::cmd
