// `topo`: the pieces of its report, pure: values to text. Called by topo.cc; threads: any.
#pragma once
#include <string>
#include <vector>

#include "topology/decide.h"
#include "topology/inspect.h"
#include "topology/types.h"

namespace collctl::cmd {

// Everything that is known of one machine.
struct TopoView {
  std::string source;  // the file
  topology::System system;
  topology::Graph graph;
  topology::Paths base, effective;  // of the hardware; after P2P, GDR and PXN
  std::vector<topology::Oddity> oddities;
  std::vector<topology::Finding> findings;  // all of them
};

// CPUs, switches, GPUs and network devices as they hang together, for people.
std::string topo_tree(const TopoView& view);
// Path type and GB/s between GPUs, and from GPUs to network devices, with a legend.
std::string topo_matrix(const TopoView& view);
// collctl.topo/1
std::string topo_json(const TopoView& view);

}  // namespace collctl::cmd
