#include "topology/paths.h"

#include <algorithm>
#include <array>
#include <queue>
#include <utility>

#include "base/check.h"
#include "base/format.h"
#include "topology/bandwidth.h"

namespace collctl::topology {
namespace {

constexpr std::array<const char*, kPathTypes> kNames = {"LOC", "NVL", "NVB", "C2C", "PIX", "PXB",
                                                        "P2C", "PXN", "PHB", "SYS", "NET", "DIS"};

// Links that a path from `source` may take out of a node: GPUs and network devices are ends.
bool leads_on(const Graph& graph, int source, int node) {
  const NodeKind kind = graph.nodes[size_t(node)].kind;
  return node == source || (kind != NodeKind::gpu && kind != NodeKind::net);
}

// Type first, then bandwidth, then hops: three searches, each within what the one before allows.
// One search with the three as its measure would be wrong: a wider way to a node in between can be
// longer, and then does not help when a later link is narrow.
class Search {
 public:
  Search(const Graph& graph, int source) : graph_(graph), source_(source) {}

  // The best type to every node: the worst step counts (minimax).
  std::vector<PathType> types() const {
    std::vector<PathType> best(graph_.nodes.size(), PathType::dis);
    std::array<std::vector<int>, kPathTypes> waiting;
    best[size_t(source_)] = PathType::loc;
    waiting[0].push_back(source_);
    for (size_t type = 0; type < size_t(PathType::dis); ++type)
      while (!waiting[type].empty()) {
        const int node = waiting[type].back();
        waiting[type].pop_back();
        if (best[size_t(node)] != PathType(type) || !leads_on(graph_, source_, node)) continue;
        for (const GraphLink& link : graph_.nodes[size_t(node)].links) {
          const PathType reached = std::max(PathType(type), step_type(graph_, node, link));
          if (reached >= best[size_t(link.to)]) continue;
          best[size_t(link.to)] = reached;
          waiting[size_t(reached)].push_back(link.to);
        }
      }
    return best;
  }

  // The widest way to every node by steps of at most that type.
  std::vector<double> widths(PathType worst) const {
    std::vector<double> best(graph_.nodes.size(), 0);
    std::priority_queue<std::pair<double, int>> waiting;
    best[size_t(source_)] = kEndless;
    waiting.push({kEndless, source_});
    while (!waiting.empty()) {
      const auto [width, node] = waiting.top();
      waiting.pop();
      if (width < best[size_t(node)] || !leads_on(graph_, source_, node)) continue;
      for (const GraphLink& link : graph_.nodes[size_t(node)].links) {
        const double reached = std::min(width, link.gbps);
        if (step_type(graph_, node, link) > worst || reached <= best[size_t(link.to)]) continue;
        best[size_t(link.to)] = reached;
        waiting.push({reached, link.to});
      }
    }
    return best;
  }

  // For every node the one before it on a shortest way by links of at least that width; -1: none.
  std::vector<int> shortest(PathType worst, double width) const {
    std::vector<int> before(graph_.nodes.size(), -1);
    std::vector<int> round{source_};
    before[size_t(source_)] = source_;
    while (!round.empty()) {
      std::vector<int> next;
      for (const int node : round) {
        if (!leads_on(graph_, source_, node)) continue;
        for (const GraphLink& link : graph_.nodes[size_t(node)].links) {
          if (before[size_t(link.to)] >= 0 || link.gbps < width ||
              step_type(graph_, node, link) > worst)
            continue;
          before[size_t(link.to)] = node;
          next.push_back(link.to);
        }
      }
      round = std::move(next);
    }
    return before;
  }

 private:
  static constexpr double kEndless = 1e300;
  const Graph& graph_;
  int source_;
};

Path path_to(int source, int target, PathType type, double gbps, const std::vector<int>& before) {
  Path path;
  path.type = type;
  path.gbps = gbps;
  for (int node = target; node != source; node = before[size_t(node)]) path.nodes.push_back(node);
  path.nodes.push_back(source);
  std::reverse(path.nodes.begin(), path.nodes.end());
  path.hops = int(path.nodes.size()) - 1;
  return path;
}

const GraphLink* straight(const Graph& graph, int from, int to, LinkKind kind) {
  for (const GraphLink& link : graph.nodes[size_t(from)].links)
    if (link.to == to && link.kind == kind) return &link;
  return nullptr;
}

// NVLink through the GPU in between that gives most; the first in order when several do.
void try_through_gpus(const Graph& graph, int from, int to, Path& path) {
  if (path.type <= PathType::nvl) return;
  for (const int middle : graph.gpus) {
    if (middle == from || middle == to) continue;
    const GraphLink* first = straight(graph, from, middle, LinkKind::nvl);
    const GraphLink* second = straight(graph, middle, to, LinkKind::nvl);
    if (first == nullptr || second == nullptr) continue;
    const double gbps = std::min(first->gbps, second->gbps);
    if (path.type == PathType::nvb && path.gbps >= gbps) continue;
    path = {PathType::nvb, gbps, 2, {from, middle, to}};
  }
}

}  // namespace

const char* path_type_name(PathType type) {
  return kNames[size_t(type)];
}

std::optional<PathType> parse_path_type(const std::string& name) {
  const auto found = std::find(kNames.begin(), kNames.end(), name);
  if (found == kNames.end()) return std::nullopt;
  return PathType(found - kNames.begin());
}

PathType step_type(const Graph& graph, int from, const GraphLink& link) {
  const NodeKind a = graph.nodes[size_t(from)].kind, b = graph.nodes[size_t(link.to)].kind;
  if (a == NodeKind::pci && b == NodeKind::pci) return PathType::pxb;
  switch (link.kind) {
    case LinkKind::loc:
    case LinkKind::net:  // between a NIC and its own port
      return PathType::loc;
    case LinkKind::nvl:
      return PathType::nvl;
    case LinkKind::c2c:
      return PathType::c2c;
    case LinkKind::pci:
      return a == NodeKind::cpu || b == NodeKind::cpu ? PathType::phb : PathType::pix;
    case LinkKind::sys:
      return PathType::sys;
  }
  return PathType::dis;
}

const Path& Paths::at(int from, int to) const {
  const int row = row_.at(size_t(from)), column = row_.at(size_t(to));
  COLL_CHECK_NOTE(row >= 0 && column >= 0, "paths are kept between endpoints");
  return paths_[size_t(row) * endpoints_.size() + size_t(column)];
}

Path& Paths::at(int from, int to) {
  return const_cast<Path&>(std::as_const(*this).at(from, to));
}

Paths make_paths(const Graph& graph, const PathOptions& options) {
  Paths made;
  made.row_.assign(graph.nodes.size(), -1);
  for (const auto* list : {&graph.gpus, &graph.nets, &graph.cpus})
    for (const int node : *list) {
      made.row_[size_t(node)] = int(made.endpoints_.size());
      made.endpoints_.push_back(node);
    }
  made.paths_.resize(made.endpoints_.size() * made.endpoints_.size());
  for (const int from : made.endpoints_) {
    const Search search(graph, from);
    const std::vector<PathType> types = search.types();
    // Targets of equal type and width share their searches.
    std::vector<std::pair<std::pair<PathType, double>, int>> targets;
    for (int type = 0; type < int(PathType::dis); ++type) {
      std::vector<double> widths;
      for (const int to : made.endpoints_) {
        if (types[size_t(to)] != PathType(type)) continue;
        if (widths.empty()) widths = search.widths(PathType(type));
        if (widths[size_t(to)] > 0) targets.push_back({{PathType(type), widths[size_t(to)]}, to});
      }
    }
    std::sort(targets.begin(), targets.end());
    std::vector<int> before;
    for (size_t i = 0; i < targets.size(); ++i) {
      const auto& [measure, to] = targets[i];
      if (to == from) {
        made.at(from, to) = {PathType::loc, kLocalGBps, 0, {from}};
        continue;
      }
      if (before.empty() || measure != targets[i - 1].first)
        before = search.shortest(measure.first, measure.second);
      made.at(from, to) = path_to(from, to, measure.first, measure.second, before);
    }
  }
  if (options.through_gpus)
    for (const int from : graph.gpus)
      for (const int to : graph.gpus)
        if (from != to) try_through_gpus(graph, from, to, made.at(from, to));
  return made;
}

Path joined(const Path& first, const Path& second) {
  if (first.type == PathType::dis || second.type == PathType::dis) return {};
  Path path{std::max(first.type, second.type), std::min(first.gbps, second.gbps),
            first.hops + second.hops, first.nodes};
  path.nodes.insert(path.nodes.end(), second.nodes.begin() + (second.nodes.empty() ? 0 : 1),
                    second.nodes.end());
  return path;
}

std::string limiting_link(const Graph& graph, const Path& path) {
  std::string slowest;
  double least = 0;
  for (size_t i = 0; i + 1 < path.nodes.size(); ++i) {
    const GraphLink* widest = nullptr;
    for (const GraphLink& link : graph.nodes[size_t(path.nodes[i])].links)
      if (link.to == path.nodes[i + 1] && (widest == nullptr || link.gbps > widest->gbps))
        widest = &link;
    if (widest == nullptr || (!slowest.empty() && widest->gbps >= least)) continue;
    least = widest->gbps;
    slowest = format("{} -> {} ({}, {:.4g} GB/s)", node_name(graph, path.nodes[i]),
                     node_name(graph, widest->to), link_kind_name(widest->kind), least);
  }
  return slowest;
}

}  // namespace collctl::topology
