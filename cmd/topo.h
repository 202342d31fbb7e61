// `topo`: the pieces of its report, pure: values to text. Called by topo.cc; threads: any.
#pragma once
#include <string>

#include "cmd/topo_view.h"

namespace collctl::cmd {

// CPUs, switches, GPUs and network devices as they hang together, for people.
std::string topo_tree(const TopoView& view);
// Path type and GB/s between GPUs, and from GPUs to network devices, with a legend.
std::string topo_matrix(const TopoView& view);
// collctl.topo/1
std::string topo_json(const TopoView& view);

}  // namespace collctl::cmd
