// The measuring that collctl and its peers do alike: how many calls a timed block has, by size, and
// what times of single calls come to.
#pragma once
#include <algorithm>
#include <cstddef>
#include <vector>

namespace bench {
inline int iterations_for(size_t bytes) {
  if (bytes <= 64 * 1024) return 2000;
  if (bytes <= 1024 * 1024) return 300;
  if (bytes <= 8 * 1024 * 1024) return 60;
  return 20;
}

// A percentile of the times of all calls, at least one.
inline double percentile(std::vector<double> times, double fraction) {
  std::sort(times.begin(), times.end());
  return times[std::min(times.size() - 1, size_t(fraction * double(times.size())))];
}
}  // namespace bench
