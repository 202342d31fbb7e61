// What `topo` and `plan` know of one machine, and where it came from: a topology file, a snapshot,
// or this machine itself. Read once by read_view; then pure values. Threads: values.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cmd/options.h"
#include "topology/decide.h"
#include "topology/inspect.h"
#include "topology/types.h"

namespace collctl::cmd {

// Everything that is known of one machine.
struct TopoView {
  std::string source;  // the file's path, or the name of this host
  bool live = false;   // detected here and now
  topology::System system;
  topology::Graph graph;
  topology::Rules rules;            // from the knobs
  topology::Paths base, effective;  // of the hardware; after P2P, GDR and PXN
  std::vector<topology::Oddity> oddities;
  std::vector<topology::Finding> findings;  // all of them
};

// Graph, paths and findings of a machine. `known`: what is odd already. Errors: usage: a machine
// that cannot be (two GPUs of one rank), or a knob with no legal value.
Result<TopoView> view_of(topology::System system, std::string source,
                         std::vector<topology::Finding> known);

// By --from. Errors: usage, with file, line and column; as view_of.
Result<TopoView> read_view(const ParsedLine& line);

}  // namespace collctl::cmd
