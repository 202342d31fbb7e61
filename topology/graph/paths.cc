#include "topology/graph/paths.h"

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
// One search with the three as its measure would be wrong: a wider path to a node in between can be
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

  // The widest path to every node by steps of at most that type.
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

  // For every node the one before it on a shortest path by links of at least some width (-1: none),
  // and how wide that path is.
  struct Ways {
    std::vector<int> before;
    std::vector<double> width;
  };
  Ways shortest(PathType worst, double width) const {
    Ways ways{std::vector<int>(graph_.nodes.size(), -1), std::vector<double>(graph_.nodes.size())};
    std::vector<int> round{source_};
    ways.before[size_t(source_)] = source_;
    ways.width[size_t(source_)] = kEndless;
    while (!round.empty()) {
      std::vector<int> next;
      for (const int node : round) {
        if (!leads_on(graph_, source_, node)) continue;
        for (const GraphLink& link : graph_.nodes[size_t(node)].links) {
          if (ways.before[size_t(link.to)] >= 0 || link.gbps < width ||
              step_type(graph_, node, link) > worst)
            continue;
          ways.before[size_t(link.to)] = node;
          ways.width[size_t(link.to)] = std::min(ways.width[size_t(node)], link.gbps);
          next.push_back(link.to);
        }
      }
      round = std::move(next);
    }
    return ways;
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

// All paths of one source. A round by hops takes the first of the shortest paths, by the order of
// links. Where that path is as wide as any, it is also the first of those by wide links only, so
// one round serves many targets, and only the others cost one more: a round for each width would
// take minutes on the largest files.
void paths_from(const Graph& graph, int source, Paths& paths) {
  const Search search(graph, source);
  const std::vector<PathType> types = search.types();
  paths.at(source, source) = {PathType::loc, kLocalGBps, 0, {source}};
  for (int at = 0; at < int(PathType::dis); ++at) {
    const PathType type = PathType(at);
    std::vector<int> targets;
    for (const int to : paths.endpoints())
      if (to != source && types[size_t(to)] == type) targets.push_back(to);
    if (targets.empty()) continue;
    const std::vector<double> widths = search.widths(type);
    std::erase_if(targets, [&](int to) { return widths[size_t(to)] <= 0; });
    std::sort(targets.begin(), targets.end(),
              [&](int a, int b) { return widths[size_t(a)] < widths[size_t(b)]; });
    for (double least = 0; !targets.empty();) {
      const Search::Ways ways = search.shortest(type, least);
      std::erase_if(targets, [&](int to) {
        const double width = widths[size_t(to)];
        if (ways.width[size_t(to)] < width) return false;
        paths.at(source, to) = path_to(source, to, type, width, ways.before);
        return true;
      });
      if (!targets.empty()) least = widths[size_t(targets.front())];
    }
  }
}

// NVLink through the GPU in between that gives most; the first in order when several do.
void add_through_gpus(const Graph& graph, Paths& paths) {
  const std::vector<int>& gpus = graph.gpus;
  std::vector<int> index(graph.nodes.size(), -1);
  for (size_t i = 0; i < gpus.size(); ++i) index[size_t(gpus[i])] = int(i);
  std::vector<double> nvlinks(gpus.size() * gpus.size());  // GB/s of the NVLinks; 0: none
  for (size_t i = 0; i < gpus.size(); ++i)
    for (const GraphLink& link : graph.nodes[size_t(gpus[i])].links)
      if (link.kind == LinkKind::nvl && index[size_t(link.to)] >= 0)
        nvlinks[i * gpus.size() + size_t(index[size_t(link.to)])] = link.gbps;
  for (size_t from = 0; from < gpus.size(); ++from)
    for (size_t to = 0; to < gpus.size(); ++to) {
      Path& path = paths.at(gpus[from], gpus[to]);
      if (from == to || path.type <= PathType::nvl) continue;
      double most = 0;
      size_t middle = 0;
      for (size_t i = 0; i < gpus.size(); ++i) {
        const double gbps =
            std::min(nvlinks[from * gpus.size() + i], nvlinks[i * gpus.size() + to]);
        if (i == from || i == to || gbps <= most) continue;
        most = gbps;
        middle = i;
      }
      if (most > 0) path = {PathType::nvb, most, 2, {gpus[from], gpus[middle], gpus[to]}};
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
  for (const int from : made.endpoints_) paths_from(graph, from, made);
  if (options.through_gpus) add_through_gpus(graph, made);
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
