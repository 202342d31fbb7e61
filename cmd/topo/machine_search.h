// The channels of one machine, for `topo` and `plan` alike: searched, or as GRAPH_FILE gives them;
// written to GRAPH_DUMP_FILE. Pure but for these files; threads: values.
#pragma once
#include <string>
#include <vector>

#include "base/result.h"
#include "cmd/topo/view.h"
#include "topology/search/search.h"

namespace collctl::cmd {

struct SearchSettings {
  int cross_nic = 2;
  std::string graph_file;  // channels as given there instead of searched; empty: none
  std::string dump_file;   // where the channels are written; empty: nowhere
};
// From the knobs. Errors: usage: no legal value.
Result<SearchSettings> read_search_settings();

// GPUs of a machine that reach each other without the network: one node of the cluster. Most
// machines are one part.
struct MachinePart {
  topology::Graph graph;  // nodes as in the view's graph
  topology::Paths effective;
  topology::NodeGraphs graphs;
  std::vector<int> ranks;  // of its GPUs on their machine
};
struct MachineChannels {
  std::vector<MachinePart> parts;
  std::vector<topology::Finding> findings;  // of the graph file
};

// As in a job of `nodes` such machines; no parts without GPUs. Errors: usage: a graph file that is
// not of this machine, or that several parts had to share; unavailable: the dump cannot be written.
Result<MachineChannels> search_machine(const TopoView& view, int nodes,
                                       const SearchSettings& settings);

}  // namespace collctl::cmd
