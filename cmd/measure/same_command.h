// Ranks that were started one by one (--join, another launcher) may have been given different
// command lines, and would then run different operations against each other: hangs, or data that
// looks wrong. Threads: each rank its own.
#pragma once
#include <string>

#include "cmd/measure/bench.h"

namespace collctl::cmd {

// What all ranks' command lines must have alike, as CommOptions::task takes it. How a rank reaches
// others (--transport, --net, --p2p) and its timeouts are its own.
std::string command_task(const BenchSpec& spec);

}  // namespace collctl::cmd
