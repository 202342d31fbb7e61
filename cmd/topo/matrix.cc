// The matrix of `topo`: how fast and by which kind of path GPUs reach each other and the network.
#include <algorithm>

#include "base/format.h"
#include "cmd/topo/topo.h"

namespace collctl::cmd {
namespace {

using namespace topology;

const char* path_type_words(PathType type) {
  static constexpr const char* kWords[] = {"itself",
                                           "NVLink or xGMI, also through NVSwitches",
                                           "NVLink through one other GPU",
                                           "NVLink-C2C",
                                           "at most one PCI switch",
                                           "several PCI switches, no CPU",
                                           "C2C to the CPU, then PCI",
                                           "NVLink to the GPU next to the NIC, then PCI",
                                           "through a CPU (NUMA node)",
                                           "between CPUs (NUMA nodes)",
                                           "over the network",
                                           "no path"};
  return kWords[size_t(type)];
}

std::string cell(const Path& path) {
  if (path.type == PathType::dis) return "DIS";
  return format("{} {:.3g}", path_type_name(path.type), path.gbps);
}

struct MatrixColumn {
  std::string head;
  std::vector<std::string> cells;  // by row
  size_t width() const {
    size_t most = head.size();
    for (const std::string& each : cells) most = std::max(most, each.size());
    return most;
  }
};

class Matrix {
 public:
  explicit Matrix(const TopoView& view) : view_(view), graph_(view.graph) {
    for (const int gpu : graph_.gpus) rows_.cells.push_back(node_name(graph_, gpu));
    rows_.head = "GB/s";
    for (const int gpu : graph_.gpus) gpus_.push_back(column(gpu));
    for (size_t i = 0; i < graph_.nets.size();) {
      size_t end = i + 1;
      MatrixColumn made = column(graph_.nets[i]);
      // Devices side by side that look the same from every GPU are one column.
      while (end < graph_.nets.size() && column(graph_.nets[end]).cells == made.cells) ++end;
      if (end - i > 1) made.head += "-" + last_number(node_name(graph_, graph_.nets[end - 1]));
      nets_.push_back(std::move(made));
      i = end;
    }
  }

  std::string text() const {
    std::vector<MatrixColumn> all = gpus_;
    all.insert(all.end(), nets_.begin(), nets_.end());
    std::string text;
    if (fits(all)) {
      text = block(all, 0, all.size());
    } else {
      text = blocks(gpus_);
      if (!nets_.empty()) text += "\n" + blocks(nets_);
    }
    text += "\n";
    for (int type = 0; type < kPathTypes; ++type)
      if (used_[type])
        text += format("{}  {}\n", path_type_name(PathType(type)), path_type_words(PathType(type)));
    return text + kModelRates + "\n";
  }

 private:
  static std::string last_number(const std::string& name) {
    return name.substr(name.find_last_of("/-") + 1);
  }

  MatrixColumn column(int to) {
    MatrixColumn made{node_name(graph_, to), {}};
    for (const int from : graph_.gpus) {
      const Path& path = view_.effective.at(from, to);
      used_[size_t(path.type)] = used_[size_t(path.type)] || from != to;
      made.cells.push_back(from == to ? "-" : cell(path));
    }
    return made;
  }

  bool fits(const std::vector<MatrixColumn>& columns) const {
    size_t width = rows_.width();
    for (const MatrixColumn& each : columns) width += 2 + each.width();
    return width <= kMatrixWidth;
  }

  std::string block(const std::vector<MatrixColumn>& columns, size_t begin, size_t end) const {
    std::string text;
    for (size_t row = 0; row <= rows_.cells.size(); ++row) {
      const auto at = [&](const MatrixColumn& one) {
        return row == 0 ? one.head : one.cells[row - 1];
      };
      std::string line = format("{:<{}}", at(rows_), rows_.width());
      for (size_t i = begin; i < end; ++i)
        line += format("  {:<{}}", at(columns[i]), columns[i].width());
      text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    }
    return text;
  }

  // As many columns side by side as fit, evenly spread.
  std::string blocks(const std::vector<MatrixColumn>& columns) const {
    size_t widest = 0;
    for (const MatrixColumn& each : columns) widest = std::max(widest, each.width() + 2);
    const size_t space = std::max(kMatrixWidth, rows_.width() + widest) - rows_.width();
    const size_t most = std::max<size_t>(1, space / widest);
    const size_t count = (columns.size() + most - 1) / most;
    const size_t each = (columns.size() + count - 1) / count;
    std::string text;
    for (size_t begin = 0; begin < columns.size(); begin += each)
      text +=
          (begin > 0 ? "\n" : "") + block(columns, begin, std::min(begin + each, columns.size()));
    return text;
  }

  const TopoView& view_;
  const Graph& graph_;
  MatrixColumn rows_;
  std::vector<MatrixColumn> gpus_, nets_;
  bool used_[kPathTypes] = {};
};

}  // namespace

std::string topo_matrix(const TopoView& view) {
  if (view.graph.gpus.empty()) return "no GPUs: no paths to show\n";
  return Matrix(view).text();
}

}  // namespace collctl::cmd
