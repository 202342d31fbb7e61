// How much of each link a node's channels use, to say which link limits them. Used by cluster;
// pure; threads: any.
#pragma once
#include <string>

#include "topology/search/search.h"

namespace collctl::topology {

struct LinkLoad {
  int from = -1, to = -1;  // nodes of the graph; -1: the channels use no link
  LinkKind kind = LinkKind::loc;
  double gbps = 0, used_gbps = 0;
};

// The link with the largest share in use; among equals the slower one. A ring loads each step once
// with its bandwidth; trees as an all-reduce on both of them does. `effective`: of effective_paths.
LinkLoad busiest_link(const Graph& graph, const Paths& effective, const ChannelGraph& channels);

// "GPU/0 -> PCI/0000:08:00.0 (PCI, 24 GB/s, 22 used)"; empty without links.
std::string load_text(const Graph& graph, const LinkLoad& load);

}  // namespace collctl::topology
