#include "cmd/topo/machine_search.h"

#include <algorithm>

#include "base/env.h"
#include "base/format.h"
#include "cmd/report/report.h"
#include "topology/graph/parts.h"
#include "topology/xml/graph_xml.h"

namespace collctl::cmd {
namespace {

using base::KnobId;

// Each part has a graph and paths of its own; no real machine comes near.
constexpr size_t kMaxParts = 64;

MachinePart part_with(const TopoView& view, const std::vector<int>& gpus, bool whole) {
  MachinePart part;
  if (whole) {
    part.graph = view.graph;
    part.effective = view.effective;
    return part;
  }
  part.graph = part_of(view.graph, view.base, gpus);
  const auto base = topology::base_paths(part.graph, {.through_gpus = view.rules.nvb});
  part.effective = effective_paths(part.graph, base, view.rules);
  return part;
}

// Channels that a file gives stand in for those found.
Status take_graph_file(const std::string& path, MachineChannels& channels) {
  if (path.empty()) return {};
  MachinePart& part = channels.parts[0];
  COLL_ASSIGN(topology::GraphFile given, topology::read_graph_xml_file(path, part.graph));
  if (given.ring) part.graphs.ring = std::move(*given.ring);
  if (given.tree) part.graphs.tree = std::move(*given.tree);
  if (given.collnet) part.graphs.collnet = std::move(*given.collnet);
  channels.findings = std::move(given.findings);
  return {};
}

}  // namespace

Result<SearchSettings> read_search_settings() {
  SearchSettings settings;
  COLL_ASSIGN(const int64_t cross_nic, base::knob_int(KnobId::cross_nic));
  settings.cross_nic = int(cross_nic);
  settings.graph_file = base::knob_text(KnobId::graph_file);
  settings.dump_file = base::knob_text(KnobId::graph_dump_file);
  return settings;
}

Result<MachineChannels> search_machine(const TopoView& view, int nodes,
                                       const SearchSettings& settings) {
  MachineChannels channels;
  if (view.graph.gpus.empty()) return channels;
  const auto groups = gpu_groups(view.graph, view.base, view.rules);
  if (groups.size() > kMaxParts)
    return Error(ErrorCode::usage,
                 format("{}: its GPUs fall into {} groups that reach each other by the network "
                        "only: at most {} can be searched",
                        view.source, groups.size(), kMaxParts),
                 "NCCL_NET_DISABLE_INTRA=1 keeps them together");
  for (const std::string* file : {&settings.graph_file, &settings.dump_file})
    if (!file->empty() && groups.size() > 1)
      return Error(ErrorCode::usage,
                   format("{}: the GPUs of {} fall into {} groups, which a graph file cannot say",
                          *file, view.source, groups.size()),
                   "NCCL_NET_DISABLE_INTRA=1 keeps them together");
  std::vector<int> by_rank = view.graph.gpus;
  std::ranges::sort(by_rank, [&](int a, int b) {
    return view.graph.nodes[size_t(a)].rank < view.graph.nodes[size_t(b)].rank;
  });
  const topology::SearchOptions options{.nodes = nodes * int(groups.size()),
                                        .cross_nic = settings.cross_nic};
  for (const std::vector<int>& gpus : groups) {
    MachinePart& part = channels.parts.emplace_back(part_with(view, gpus, groups.size() == 1));
    part.graphs = search_node(part.graph, part.effective, options);
    for (size_t rank = 0; rank < by_rank.size(); ++rank)
      if (std::ranges::find(gpus, by_rank[rank]) != gpus.end()) part.ranks.push_back(int(rank));
  }
  COLL_TRY(take_graph_file(settings.graph_file, channels));
  if (!settings.dump_file.empty())
    COLL_TRY(write_file_atomically(
        settings.dump_file, write_graph_xml(channels.parts[0].graph, channels.parts[0].graphs)));
  return channels;
}

}  // namespace collctl::cmd
