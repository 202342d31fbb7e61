// The text of `plan`: what the cluster is, channels and trees, then a row for every size and why.
#include <algorithm>
#include <map>

#include "base/format.h"
#include "base/number_ranges.h"
#include "cmd/plan/plan.h"
#include "cmd/text/sizes.h"
#include "cmd/topo/parts.h"
#include "launcher/hosts/placement.h"
#include "topology/cluster/double_tree.h"
#include "topology/cluster/wiring.h"

namespace collctl::cmd {
namespace {

using namespace topology;

constexpr int kShownNodes = 16;  // of the tree between nodes

// Lines that several channels share, each with the channels it is of.
class Folded {
 public:
  void add(int channel, const std::string& line) {
    for (auto& [known, channels] : lines_)
      if (known == line) return channels.push_back(channel);
    lines_.push_back({line, {channel}});
  }
  const std::vector<std::pair<std::string, std::vector<int>>>& lines() const { return lines_; }

 private:
  std::vector<std::pair<std::string, std::vector<int>>> lines_;
};

class PlanText {
 public:
  explicit PlanText(const JobPlan& plan) : plan_(plan), cluster_(plan.cluster) {}

  std::string header() const {
    std::string text = format("# plan for {}: {} of {}, {}\n", name_of(plan_.spec.collective),
                              counted(size_t(plan_.spec.nodes), "node"),
                              counted(plan_.view.graph.gpus.size(), "GPU"),
                              counted(size_t(cluster_.ranks()), "rank"));
    text += format("# node: {}: {}\n", plain(plan_.view.source), machine_summary(plan_.view));
    if (plan_.parts.size() > 1)
      text +=
          format("# each counts as {} nodes: its GPUs reach each other by the network in part\n",
                 plan_.parts.size());
    if (cluster_.nodes() > 1) text += networks();
    text += plan_network_text(plan_.spec.plugin);
    text += plan_tuner_text(plan_.tuner);
    if (plan_.windows) text += windows_text(*plan_.windows);
    text += "# rings: " + facts(cluster_.ring) + "\n";
    text += format("# trees ({}): {}\n", pattern_name(cluster_.tree_pattern), facts(cluster_.tree));
    for (const std::string& step : cluster_.steps) text += "# channels: " + step + "\n";
    text += rails() + format("# {}\n", kModelRates);
    if (cluster_.nodes() > 1)
      text +=
          "# below: the ranks of the first two nodes, between the devices by which a ring enters "
          "and leaves; all of them in --json\n";
    return text;
  }

  std::string channels() const {
    Folded rings;
    for (int c = 0; c < cluster_.channels(); ++c) rings.add(c, ring_line(c));
    std::string text;
    for (const auto& [line, numbers] : rings.lines())
      text += format("Channel {:02}/{:02} : {}{}\n", numbers[0], cluster_.channels(), line,
                     others(numbers));
    Folded trees;
    for (int c = 0; c < cluster_.channels(); ++c) trees.add(c, tree_line(c));
    for (const auto& [line, numbers] : trees.lines())
      text += format("Tree    {:02}/{:02} : {}{}\n", numbers[0], cluster_.channels(), line,
                     others(numbers));
    return text + between_nodes();
  }

  std::string table(size_t width) const {
    std::vector<PlanLine> lines;
    for (const PlanRow& row : plan_.rows)
      lines.push_back({.bytes = row.bytes,
                       .algorithm = name_of(row.algorithm),
                       .protocol = name_of(row.protocol),
                       .channels = row.channels,
                       .threads = row.threads == 0 ? "-" : std::to_string(row.threads),
                       .us = row.expected_us,
                       .algbw_GBps = row.algbw_gbps,
                       .busbw_GBps = row.busbw_gbps,
                       .limited_by = plain(row.limited_by)});
    return plan_table(lines, width);
  }

  // One line for each run of sizes with one choice: the reasons at its ends.
  std::string reasons() const {
    std::string text;
    for (size_t first = 0; first < plan_.rows.size();) {
      size_t last = first;
      while (last + 1 < plan_.rows.size() && same_choice(plan_.rows[first], plan_.rows[last + 1]))
        ++last;
      const PlanRow &from = plan_.rows[first], &to = plan_.rows[last];
      text += "# why: " + human_bytes(from.bytes);
      if (last > first) text += " to " + human_bytes(to.bytes);
      text += ": " + from.why;
      if (from.why != to.why) text += format("; at the end {}", to.why.substr(after_name(to)));
      text += "\n";
      first = last + 1;
    }
    return text;
  }

  std::string details() const {
    std::string text;
    for (const MachinePart& part : plan_.parts)
      for (const ChannelGraph* graph : {&part.graphs.ring, &part.graphs.tree})
        for (const std::string& step : graph->steps)
          text += format("# search, {}: {}\n", pattern_name(graph->pattern), plain(step));
    text += format("# rank {} as NCCL's log has it: Trees{}\n", plan_.world_rank(0), field_trees());
    text += messages();
    for (const PlanRow& row : plan_.rows) text += weighed(row);
    for (const runtime::WeighedChoice& way : plan_.rows[0].weighed)
      if (!way.unavailable.empty())
        text += format("# not {} {}: {}\n", name_of(way.algorithm), name_of(way.protocol),
                       plain(way.unavailable));
    return text;
  }

 private:
  static bool same_choice(const PlanRow& a, const PlanRow& b) {
    return a.algorithm == b.algorithm && a.protocol == b.protocol;
  }
  // " [0] 1/8/-1->0->-1 [1] ...": children, rank, parent of the first rank in each channel.
  std::string field_trees() const {
    std::string text;
    for (int c = 0; c < cluster_.channels(); ++c) {
      const TreePlace& place = cluster_.trees[size_t(c)][0];
      const auto world = [&](int rank) { return rank < 0 ? -1 : plan_.world_rank(rank); };
      text += format(" [{}] {}/{}/{}->{}->{}", c, world(place.down[0]), world(place.down[1]),
                     world(place.down[2]), world(0), world(place.up));
    }
    return text;
  }
  // The times of all that could be chosen.
  static std::string weighed(const PlanRow& row) {
    std::string times;
    for (const runtime::WeighedChoice& way : row.weighed)
      if (way.unavailable.empty())
        times += format("{}{} {} {}", times.empty() ? "" : ", ", name_of(way.algorithm),
                        name_of(way.protocol), four_digits(way.us));
    return format("# {}: {} us\n", human_bytes(row.bytes), times);
  }
  // Where the reason goes on behind the name of what was chosen.
  static size_t after_name(const PlanRow& row) {
    const size_t at = row.why.find("; ");
    return at == std::string::npos ? 0 : at + 2;
  }

  std::string facts(const PatternFacts& f) const {
    std::string text =
        format("{} of {:.4g} GB/s between GPUs ({})", counted(size_t(f.channels), "channel"),
               f.bw_intra, path_type_name(f.type_intra));
    if (cluster_.nodes() > 1)
      text += format(", {:.4g} GB/s to the network ({})", f.bw_inter, path_type_name(f.type_inter));
    if (!f.busiest_link.empty()) text += "; fills most " + plain(f.busiest_link);
    return text;
  }

  // NICs by which each node reaches the others.
  std::string networks() const {
    std::map<double, size_t> devices;
    for (const int net : plan_.view.graph.nets)
      ++devices[8 * plan_.view.graph.nodes[size_t(net)].net_gbps];
    std::string text;
    for (auto it = devices.rbegin(); it != devices.rend(); ++it)
      text += format("{}{} x {:.4g} Gb/s", text.empty() ? "" : ", ", it->second, it->first);
    return format("# network of a node: {}\n", text);
  }

  std::string rails() const {
    if (cluster_.nodes() < 2 || plan_.parts.size() > 1) return "";
    const RailUse use = rail_use(cluster_);
    if (use.ring_crossings + use.tree_crossings == 0)
      return "# rails: every link joins the same network device of both nodes\n";
    return format("# rails: {} of {} ring links and {} of {} tree links join different devices\n",
                  use.ring_crossings, use.ring_links, use.tree_crossings, use.tree_links);
  }

  static std::string others(const std::vector<int>& channels) {
    if (channels.size() < 2) return "";
    const std::vector<int> rest(channels.begin() + 1, channels.end());
    return format("   (also {})", base::number_ranges(rest, ","));
  }

  std::string net(int node, int index) const {
    if (index < 0) return "-";
    const Graph& graph = plan_.part(node).graph;
    return node_name(graph, graph.nets[size_t(index)]);
  }
  std::string ranks_text(std::vector<int> ranks, const char* between) const {
    for (int& rank : ranks) rank = plan_.world_rank(rank);
    return shortened_ranks(ranks, between);
  }

  // "through 0 " where that rank's GPU sends to the device.
  std::string through(int node, int rank, int device) const {
    const int first = cluster_.first_rank[size_t(node)];
    const auto& relay = cluster_.node(node).relay;
    if (device < 0 || relay.empty()) return "";
    const int by = relay[size_t(rank - first)][size_t(device)];
    return by < 0 ? "" : format("through {} > ", plan_.world_rank(first + by));
  }

  // By what ranks of the first machine send to each place of another node.
  std::string messages() const {
    std::string text;
    for (int node = 0; node < int(plan_.parts.size()) && cluster_.nodes() > 1; ++node)
      for (int place = 0; place < cluster_.largest_node(); ++place) {
        Folded ways;
        for (int from = cluster_.first_rank[size_t(node)];
             from < cluster_.first_rank[size_t(node) + 1]; ++from)
          ways.add(plan_.world_rank(from), way_to(node, from, place));
        text += format("# messages to GPU {} of another node:", place);
        const char* between = " ";
        for (const auto& [way, ranks] : ways.lines()) {
          text += format("{}{} by {}", between, base::number_ranges(ranks, ","), way);
          between = "; ";
        }
        text += "\n";
      }
    return text;
  }
  std::string way_to(int node, int from, int place) const {
    std::string text;
    for (const PairLink& link : pair_links(cluster_, from, place)) {
      text += (text.empty() ? "" : ", ") + net(node, link.device);
      if (link.by >= 0) text += format(" through {}", plan_.world_rank(link.by));
    }
    return text.empty() ? "no device" : text;
  }

  // From the GPU at which the ring enters node 0 to the end of node 1.
  std::string ring_line(int channel) const {
    std::vector<int> ring = cluster_.rings[size_t(channel)];
    if (cluster_.nodes() == 1) return ranks_text(ring, " ");
    size_t entry = 0;
    while (cluster_.node_of(ring[entry]) != 0 ||
           cluster_.node_of(ring[(entry + ring.size() - 1) % ring.size()]) == 0)
      ++entry;
    std::rotate(ring.begin(), ring.begin() + ptrdiff_t(entry), ring.end());
    const auto node = [&](int k) {
      const NetUse use = net_use(cluster_, channel, k);
      const auto from = ring.begin() + cluster_.first_rank[size_t(k)];
      const auto to = ring.begin() + cluster_.first_rank[size_t(k) + 1];
      return format("{} > {} > {}{}", net(k, use.ring_in), ranks_text({from, to}, " "),
                    through(k, *(to - 1), use.ring_out), net(k, use.ring_out));
    };
    std::string text = node(0) + " -> " + node(1);
    if (cluster_.nodes() > 2) text += format(" -> ... {} nodes", cluster_.nodes());
    return text;
  }

  // The chain of node 0 and who of it speaks to other nodes.
  std::string tree_line(int channel) const {
    const TreeChain chain = tree_chain(cluster_, channel, 0);
    std::string text = ranks_text(chain.ranks, "-");
    if (cluster_.nodes() == 1) return text;
    const auto contact = [&](const char* what, int rank, int device) {
      return format("{} at {} by {}", what, plan_.world_rank(rank), net(0, device));
    };
    return text + "   " + contact("parent", chain.ranks[0], chain.parent_net) + ", " +
           contact("lower child", chain.child[0], chain.child_net[0]) + ", " +
           contact("upper child", chain.child[1], chain.child_net[1]);
  }

  // Nodes level by level, of both trees.
  std::string between_nodes() const {
    std::string text;
    if (cluster_.nodes() < 2) return text;
    for (const int tree : {0, 1}) {
      std::vector<int> channels;
      for (int c = 0; c < cluster_.channels(); ++c)
        if (tree_chain(cluster_, c, 0).tree == tree) channels.push_back(c);
      if (!channels.empty())
        text += format("Nodes of tree {} (channels {}): {}\n", tree,
                       base::number_ranges(channels, ","), levels(tree));
    }
    return text;
  }

  std::string levels(int tree) const {
    const int nodes = cluster_.nodes(), depth = double_tree_depth(nodes);
    std::vector<std::vector<int>> found(size_t(depth) + 1);
    for (int node = 0; node < nodes; ++node) {
      int level = 0;
      for (int at = node; (at = double_binary_tree(tree, nodes, at).up) >= 0;) ++level;
      found[size_t(level)].push_back(node);
    }
    std::string text = "root ";
    for (int level = 0; level <= depth; ++level) {
      if (nodes > kShownNodes && level > 2) return text + format(" > ... {} levels below", depth);
      text += (level > 0 ? " > " : "") + shortened_ranks(found[size_t(level)], " ");
    }
    return text;
  }

  const JobPlan& plan_;
  const Cluster& cluster_;
};

}  // namespace

std::string shortened_ranks(const std::vector<int>& ranks, const char* between) {
  constexpr size_t kRanksShown = 16;  // the last one follows
  std::string text;
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (i >= kRanksShown && i + 1 < ranks.size()) continue;
    if (i > 0) text += i > kRanksShown ? " ... " : between;
    text += std::to_string(ranks[i]);
  }
  return text;
}

std::string plan_table(const std::vector<PlanLine>& lines, size_t width) {
  std::vector<TableColumn> columns;
  const auto add = [&](const char* title, const char* unit, bool left, const auto& cell) {
    TableColumn& column = columns.emplace_back(TableColumn{title, unit, left, {}});
    for (const PlanLine& line : lines) column.cells.push_back(cell(line));
  };
  add("size", "(B)", false, [](const PlanLine& line) { return std::to_string(line.bytes); });
  add("algo", "", true, [](const PlanLine& line) { return line.algorithm; });
  add("proto", "", true, [](const PlanLine& line) { return line.protocol; });
  add("channels", "", false, [](const PlanLine& line) { return std::to_string(line.channels); });
  if (!lines.empty() && !lines[0].threads.empty())
    add("threads", "", false, [](const PlanLine& line) { return line.threads; });
  add("time", "(us)", false, [](const PlanLine& line) { return four_digits(line.us); });
  add("algbw", "(GB/s)", false, [](const PlanLine& line) { return four_digits(line.algbw_GBps); });
  add("busbw", "(GB/s)", false, [](const PlanLine& line) { return four_digits(line.busbw_GBps); });
  add("limited by", "", true, [](const PlanLine& line) { return line.limited_by; });
  return table_text(std::move(columns), {"threads", "algbw", "channels"}, width);
}

std::string plan_text(const JobPlan& plan, int verbosity, size_t width) {
  const PlanText writer(plan);
  std::string text = writer.header() + "#\n" + writer.channels() + "#\n" + writer.table(width) +
                     "#\n" + writer.reasons();
  if (verbosity > 0) text += "#\n" + writer.details();
  return text;
}

}  // namespace collctl::cmd
