// The channels of one node as text: `topo --graph`.
#include <algorithm>

#include "base/format.h"
#include "base/number_ranges.h"
#include "cmd/text/table.h"
#include "cmd/topo/parts.h"
#include "cmd/topo/topo.h"
#include "launcher/hosts/placement.h"

namespace collctl::cmd {

namespace {

using namespace topology;

// Equal channels, by the number of the first.
struct GraphGroup {
  const GraphChannel* channel;
  std::vector<int> numbers;
};

std::vector<GraphGroup> group_channels(const ChannelGraph& found) {
  std::vector<GraphGroup> groups;
  for (size_t i = 0; i < found.channels.size(); ++i) {
    const auto same = std::ranges::find_if(
        groups, [&](const GraphGroup& group) { return *group.channel == found.channels[i]; });
    if (same != groups.end())
      same->numbers.push_back(int(i));
    else
      groups.push_back({&found.channels[i], {int(i)}});
  }
  return groups;
}

class GraphText {
 public:
  GraphText(const TopoView& view, int nodes) : graph_(view.graph), nodes_(nodes) {}

  std::string pattern(const ChannelGraph& found) const {
    const std::string name = found.collnet ? "collnet chain" : pattern_name(found.pattern);
    std::string text = format("{}: {} x {:.4g} GB/s between GPUs ({})", name,
                              counted(found.channels.size(), "channel"), found.bw_intra,
                              path_type_name(found.type_intra));
    if (nodes_ > 1)
      text += format(", {:.4g} GB/s to the network ({})", found.bw_inter,
                     path_type_name(found.type_inter));
    if (found.channels.size() > 1)
      text += found.same_channels ? ", all in one order" : ", in several orders";
    text += "\n";
    if (found.fallback)
      text += "  ! no channel was found at any speed: one channel in the order of ranks\n";
    const std::vector<GraphGroup> groups = group_channels(found);
    for (size_t i = 0; i < groups.size(); ++i) {
      text += line(groups[i]);
      // From the root down; one shows the form, the others differ in their order only.
      if (i == 0 && found.pattern != topology::Pattern::ring && !found.collnet)
        text += chain(found.pattern, *groups[i].channel);
    }
    return text;
  }

 private:
  // In NCCL's wording: " 0 : NET/0 GPU/0 GPU/1 NET/0".
  std::string line(const GraphGroup& group) const {
    std::string text = format("{:>2} :", group.numbers[0]);
    const GraphChannel& channel = *group.channel;
    if (channel.net_in >= 0) text += " " + node_name(graph_, channel.net_in);
    for (const int gpu : channel.gpus) text += " " + node_name(graph_, gpu);
    if (channel.net_out >= 0) text += " " + node_name(graph_, channel.net_out);
    if (group.numbers.size() > 1)
      text += format("   x {} (channels {})", group.numbers.size(),
                     base::number_ranges(group.numbers, ", "));
    return text + "\n";
  }

  // Peers that a chain's GPU at this place has in other nodes, by NCCL's rules for each pattern.
  static const char* contact(topology::Pattern pattern, size_t place) {
    if (place > 1) return "";
    switch (pattern) {
      case topology::Pattern::split_tree:
        return place == 0 ? "parent in another node" : "children in other nodes";
      case topology::Pattern::balanced_tree:
        return place == 0 ? "parent and one child in other nodes" : "one child in another node";
      default:
        return place == 0 ? "parent and children in other nodes" : "";
    }
  }

  std::string chain(topology::Pattern pattern, const GraphChannel& channel) const {
    std::string text = "     ", contacts;
    for (size_t i = 0; i < channel.gpus.size(); ++i) {
      const std::string name = node_name(graph_, channel.gpus[i]);
      text += (i > 0 ? " > " : "") + name;
      const int net = i == 0 ? channel.net_in : channel.net_out;
      // A chain of one uses the network with all it has.
      const char* what = contact(channel.gpus.size() == 1 ? topology::Pattern::tree : pattern, i);
      if (nodes_ > 1 && *what != 0)
        contacts +=
            format("     {}: {}{}\n", name, what, net >= 0 ? ", by " + node_name(graph_, net) : "");
    }
    return text + "\n" + contacts;
  }

  const Graph& graph_;
  int nodes_;
};

}  // namespace

std::string topo_graph(const TopoView& view, const std::vector<NodeGraphs>& parts, int nodes) {
  const int all = nodes * int(std::max<size_t>(parts.size(), 1));
  const GraphText writer(view, all);
  std::string text = format("channels of {} by the search, {}:\n",
                            all > 1 ? "each node" : "the node", counted(size_t(nodes), "node"));
  if (parts.size() > 1)
    text += format(
        "the machine is {} nodes: not all of its GPUs reach each other without the "
        "network\n",
        parts.size());
  for (const NodeGraphs& graphs : parts)
    for (const ChannelGraph* found : {&graphs.ring, &graphs.tree, &graphs.collnet})
      if (!found->channels.empty()) text += writer.pattern(*found);
  if (parts.empty()) text += "none: there is no GPU\n";
  return text;
}

// The matrix of `topo`: how fast and by which kind of path GPUs reach each other and the network.

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
