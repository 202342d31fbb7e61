// This machine as it was detected, completed by the file of TOPO_FILE where that is set. Any
// thread.
#pragma once
#include <vector>

#include "base/result.h"
#include "topology/findings.h"
#include "topology/types.h"

namespace collctl::topology {

// The file goes before detection; `findings` gets what is odd in it. Nothing without TOPO_FILE.
// Error usage: it is no topology file.
Status complete_by_topo_file(System& system, std::vector<Finding>& findings);

}  // namespace collctl::topology
