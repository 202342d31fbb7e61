// Channels as NCCL's graph files have them (NCCL_GRAPH_FILE, NCCL_GRAPH_DUMP_FILE), both ways.
// Reading trusts nothing: what does not match this machine (a GPU twice or missing, a device that
// does not exist, more channels than say) is an error with file:line:column. Used by `topo` and
// `plan`. Threads: any.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "topology/search/search.h"

namespace collctl::topology {

// The most channels of one graph.
inline constexpr int kMaxGraphChannels = 64;

// Graphs that a file does not hold are absent: they are searched for as usual.
struct GraphFile {
  std::optional<ChannelGraph> ring, tree, collnet;
  std::vector<Finding> findings;
};

// `name` stands in messages. Errors: usage, "NAME:LINE:COLUMN: ...".
Result<GraphFile> read_graph_xml(std::string_view text, const std::string& name,
                                 const Graph& graph);
// Errors: usage as above, or when there is no such regular file or it is larger than kMaxFileBytes.
Result<GraphFile> read_graph_xml_file(const std::string& path, const Graph& graph);

// Reading it for the same Graph gives the same channels, bandwidths and types; what the search says
// about its course (visits, steps, hops) is not written. Graphs without channels are left out.
std::string write_graph_xml(const Graph& graph, const NodeGraphs& graphs);

}  // namespace collctl::topology
