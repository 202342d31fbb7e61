// Arithmetic of the burn-in on one core: chains of x -> r (x - x x) in the widest vectors that the
// processor has. The map is chaotic: a wrong bit in any step is in all bits some fifty steps later.
// The same number of steps is the same bits on every core of a kind. Threads: any, values.
#pragma once
#include <cstdint>

namespace collctl::kernels {

inline constexpr int kMostBurnNumbers = 96;
struct CoreBurn {
  int count = 0;  // of numbers, by the width of vectors
  uint64_t bits[kMostBurnNumbers] = {};
};
// `flip`: a wrong bit half way (tests).
CoreBurn burn_core(uint64_t steps, bool flip = false);
double burn_core_flops(uint64_t steps);
const char* burn_core_vectors();  // "AVX-512", "AVX2", "128 bits"

}  // namespace collctl::kernels
