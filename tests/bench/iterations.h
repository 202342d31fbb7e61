// How many calls a timed block has, by size: the same for collctl and its peers.
#pragma once
#include <cstddef>

namespace bench {
inline int iterations_for(size_t bytes) {
  if (bytes <= 64 * 1024) return 2000;
  if (bytes <= 1024 * 1024) return 300;
  if (bytes <= 8 * 1024 * 1024) return 60;
  return 20;
}
}  // namespace bench
