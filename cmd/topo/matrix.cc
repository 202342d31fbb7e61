// The matrix of `topo`: how fast and by which kind of path GPUs reach each other and the network.
#include <algorithm>

#include "base/format.h"
#include "cmd/text/table.h"
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

class Matrix {
 public:
  explicit Matrix(const TopoView& view) : view_(view), graph_(view.graph) {
    for (const int gpu : graph_.gpus) rows_.cells.push_back(node_name(graph_, gpu));
    for (const int gpu : graph_.gpus) gpus_.push_back(column(gpu));
    for (size_t i = 0; i < graph_.nets.size();) {
      size_t end = i + 1;
      TableColumn made = column(graph_.nets[i]);
      // Devices side by side that look the same from every GPU are one column.
      while (end < graph_.nets.size() && column(graph_.nets[end]).cells == made.cells) ++end;
      if (end - i > 1) made.title += "-" + last_number(node_name(graph_, graph_.nets[end - 1]));
      nets_.push_back(std::move(made));
      i = end;
    }
  }

  // One table where it fits, else GPUs and network devices apart.
  std::string text(size_t width) const {
    std::vector<TableColumn> all = gpus_;
    all.insert(all.end(), nets_.begin(), nets_.end());
    size_t needed = rows_.width();
    for (const TableColumn& each : all) needed += 2 + each.width();
    std::string text = matrix_text({"", rows_, needed <= width ? all : gpus_}, width);
    if (needed > width && !nets_.empty()) text += "\n" + matrix_text({"", rows_, nets_}, width);
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

  TableColumn column(int to) {
    TableColumn made{.title = node_name(graph_, to), .left = true};
    for (const int from : graph_.gpus) {
      const Path& path = view_.effective.at(from, to);
      used_[size_t(path.type)] = used_[size_t(path.type)] || from != to;
      made.cells.push_back(from == to ? "-" : cell(path));
    }
    return made;
  }

  const TopoView& view_;
  const Graph& graph_;
  TableColumn rows_{.title = "GB/s", .left = true};
  std::vector<TableColumn> gpus_, nets_;
  bool used_[kPathTypes] = {};
};

}  // namespace

std::string topo_matrix(const TopoView& view, size_t width) {
  if (view.graph.gpus.empty()) return "no GPUs: no paths to show\n";
  return Matrix(view).text(width);
}

}  // namespace collctl::cmd
