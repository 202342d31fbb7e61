// Ranks that were started one by one (--join, another launcher) may have been given different
// command lines, and would then run different operations against each other: hangs, or data that
// looks wrong. Threads: each rank its own.
#pragma once
#include "cmd/bench.h"
#include "runtime/communicator.h"

namespace collctl::cmd {

// Collective. An error of code usage, the same on all ranks, that names the first rank whose
// command line differs from rank 0's, and in what. How a rank reaches others (--transport, --net,
// --p2p) and its timeouts are its own.
Status same_command(const BenchSpec& spec, runtime::Communicator& communicator, Deadline deadline);

}  // namespace collctl::cmd
