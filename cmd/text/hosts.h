// Names of hosts in one line. Pure; any thread.
#pragma once
#include <string>
#include <vector>

namespace collctl::cmd {

// Sorted, each once. Up to three as they are: "node2, node10"; of more those that differ in one
// number are one word, as -H takes it: "login, node[01-06,09].rack7". The rest of more than 16
// words is counted.
std::string folded_hosts(const std::vector<std::string>& names);

}  // namespace collctl::cmd
