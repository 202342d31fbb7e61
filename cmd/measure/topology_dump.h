// The dump that a rank of a job makes of its machine (TOPO_DUMP_FILE), as NCCL does.
#pragma once
#include "base/result.h"

namespace collctl::cmd {

// Writes what is detected here, completed by TOPO_FILE, when TOPO_DUMP_FILE is set and `rank` is
// TOPO_DUMP_FILE_RANK; nothing otherwise. Errors: unavailable: the file cannot be written; usage:
// TOPO_FILE is no topology file, or a knob has no legal value.
Status dump_topology(int rank);

}  // namespace collctl::cmd
