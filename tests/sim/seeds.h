// Runs by seeds, and what a failing one is made of: faults and sizes are left out as long as it
// still fails. Threads: one.
#pragma once
#include <cstdint>

namespace collctl::sim {

struct SeedOptions {
  uint64_t first = 1, count = 1000;
  int hosts = 0;       // 0: drawn
  bool trace = false;  // of each run
};
// Prints what failed; returns how many did.
int run_seeds(const SeedOptions& options);

}  // namespace collctl::sim
