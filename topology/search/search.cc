#include "topology/search/search.h"

#include <algorithm>

#include "base/check.h"
#include "topology/search/pattern.h"

namespace collctl::topology {
namespace {

// Channels times GPUs: the search goes one call deeper for each.
constexpr int kDeepest = 4096;

// Two islands of GPUs joined by NVLink, with something slower between them.
bool is_split_nvlink(const SearchSite& site) {
  std::vector<int> island(site.gpus().size()), members(site.gpus().size());
  for (size_t g = 0; g < island.size(); ++g) {
    island[g] = int(g);
    for (size_t before = 0; before < g; ++before)
      if (site.paths().at(site.gpus()[g], site.gpus()[before]).type == PathType::nvl)
        island[g] = std::min(island[g], island[before]);
    ++members[size_t(island[g])];
  }
  return std::count_if(members.begin(), members.end(), [](int count) { return count > 1; }) == 2;
}

}  // namespace

const char* pattern_name(Pattern pattern) {
  static constexpr const char* kNames[] = {"ring", "tree", "balanced-tree", "split-tree"};
  return kNames[size_t(pattern)];
}

std::vector<std::pair<int, int>> channel_steps(Pattern pattern, const GraphChannel& channel) {
  std::vector<std::pair<int, int>> steps;
  const std::vector<int>& gpus = channel.gpus;
  const bool network = channel.net_in >= 0;
  if (network) steps.emplace_back(channel.net_in, gpus.front());
  for (size_t i = 0; i + 1 < gpus.size(); ++i) steps.emplace_back(gpus[i], gpus[i + 1]);
  const int second = gpus.size() > 1 ? gpus[1] : gpus.front();
  if (pattern == Pattern::ring && !network) {
    if (gpus.size() > 1) steps.emplace_back(gpus.back(), gpus.front());
  } else if (network) {
    if (pattern == Pattern::ring) steps.emplace_back(gpus.back(), channel.net_out);
    if (pattern == Pattern::tree || pattern == Pattern::balanced_tree)
      steps.emplace_back(gpus.front(), channel.net_out);
    if (pattern == Pattern::split_tree || (pattern == Pattern::balanced_tree && gpus.size() > 1))
      steps.emplace_back(second, channel.net_out);
  }
  return steps;
}

NodeGraphs search_node(const Graph& graph, const Paths& paths, const SearchOptions& options) {
  COLL_CHECK_NOTE(!graph.gpus.empty() && options.nodes > 0 && options.min_channels > 0 &&
                      options.min_channels <= options.max_channels,
                  "the search needs a GPU and a range of channels");
  const SearchSite site(graph, paths, options.nodes > 1);
  ChannelSearch channels(site);
  const int deepest = std::max(1, kDeepest / int(graph.gpus.size()));
  NodeGraphs found;

  SearchRules ring;
  ring.max_channels = std::min(options.max_channels, deepest);
  ring.min_channels = std::min(options.min_channels, ring.max_channels);
  // A tree gains much from two islands of NVLink, but only with two channels, and it will have as
  // many as the ring. Where two do not fit (NCCL then has none) one is better than none.
  SearchRules pair = ring;
  pair.min_channels = std::max(2, ring.min_channels);
  const bool split = is_split_nvlink(site) && ring.max_channels >= 2;
  if (split) found.ring = search_pattern(site, channels, pair, options.cross_nic);
  if (!split || found.ring.fallback)
    found.ring = search_pattern(site, channels, ring, options.cross_nic);

  SearchRules tree;
  tree.pattern = graph.gpus.size() == 1 ? Pattern::tree : Pattern::balanced_tree;
  tree.min_channels = tree.max_channels = int(found.ring.channels.size());
  found.tree = search_pattern(site, channels, tree, options.cross_nic);

  const bool reduces = std::any_of(site.nets().begin(), site.nets().end(),
                                   [&](int net) { return graph.nodes[size_t(net)].coll; });
  if (!reduces) return found;
  tree.pattern = Pattern::tree;
  tree.collnet = true;
  found.collnet = search_pattern(site, channels, tree, options.cross_nic);
  return found;
}

}  // namespace collctl::topology
