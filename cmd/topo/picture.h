// A machine as a picture. Two steps, each a pure function: its parts (parts.h) are placed on a
// plane, that is written as SVG (cmd/text/svg.h). Threads: any.
#pragma once
#include "cmd/text/svg.h"
#include "cmd/topo/parts.h"
#include "topology/search/search.h"

namespace collctl::cmd {

// `ring`: a channel to draw as a path through its GPUs; may be null.
Picture make_picture(const TopoView& view, const topology::GraphChannel* ring);

inline std::string topo_svg(const TopoView& view, const topology::GraphChannel* ring) {
  return write_svg(make_picture(view, ring));
}

}  // namespace collctl::cmd
