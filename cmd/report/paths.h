// How fast each end reaches each other end, and its heat map. Pure. Threads: values.
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "base/record.h"

namespace collctl::cmd {

inline constexpr double kNotTried = -1;
struct PathEnd {
  Host host;
  std::string nic;
  // "node01 eth0"
  std::string text() const { return nic.empty() ? host.name : host.name + " " + nic; }
  bool operator==(const PathEnd&) const = default;
};
struct PathMatrix {
  std::vector<PathEnd> ends;
  std::vector<std::vector<double>> GBps;  // by sender, then by receiver; 0: nothing passes
  std::vector<Host> busy = {};            // hosts that others had meanwhile
  bool is_busy(const Host& host) const { return std::ranges::count(busy, host) > 0; }
};
// Reading fails unless it is square.
void fields(Record& io, PathMatrix& paths);

// Takes over what was not tried before; of the same path the first value stays. Busy is a host that
// was so in any of them.
void add_paths(PathMatrix& paths, const PathMatrix& more);

// A map of at most kMostEnds ends: of more those whose paths fail most, then the slowest. Empty
// when nothing was tried.
inline constexpr size_t kMostEnds = 160;
std::string paths_svg(const std::string& title, const PathMatrix& paths);

}  // namespace collctl::cmd
