// A test's draws: everything of a run comes from one seed, which is printed when it fails.
//   GPU_KERNELS_SEED=N   the first run's; the next ones follow it
//   GPU_KERNELS_RUNS=N   how many runs of each kind instead of the usual few (0: that many)
// One failed run alone: GPU_KERNELS_SEED=<its seed> GPU_KERNELS_RUNS=1 test_gpu_kernels <test>
#pragma once
#include <cstdlib>
#include <initializer_list>
#include <string>

#include "tests/emulated_gpu/machine.h"
#include "tests/how_much.h"

namespace emulated_tests {

inline uint64_t number_of(const char* variable, uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr || *text == '\0' ? otherwise : std::strtoull(text, nullptr, 10);
}
inline uint64_t first_seed() {
  return number_of("GPU_KERNELS_SEED", 1);
}
inline uint64_t runs_of(uint64_t usual) {
  const uint64_t asked = number_of("GPU_KERNELS_RUNS", 0),
                 every = uint64_t(collctl::test::how_much(collctl::test::Sweep::emulated_runs));
  return asked != 0 ? asked : (usual - 1) / every + 1;
}

// run(seed) for each.
template <class Run>
void each_seed(uint64_t usual_runs, Run run) {
  const uint64_t first = first_seed(), runs = runs_of(usual_runs);
  for (uint64_t seed = first; seed < first + runs; ++seed) run(seed);
}

class Draw {
 public:
  explicit Draw(uint64_t seed) : state_(seed * 0x2545f4914f6cdd1du + 1) {
    for (int i = 0; i < 4; ++i) below(2);
  }
  uint64_t below(uint64_t bound) {
    state_ ^= state_ << 13, state_ ^= state_ >> 7, state_ ^= state_ << 17;
    return (state_ >> 11) % bound;
  }
  bool one_in(uint64_t n) { return below(n) == 0; }
  template <class T>
  T of(std::initializer_list<T> values) {
    return values.begin()[below(values.size())];
  }
  // As many small ones as large ones.
  uint64_t size(uint64_t most) {
    uint64_t bits = 0;
    while (most >> bits > 1) ++bits;
    const uint64_t drawn = below(uint64_t(2) << below(bits + 1));
    return drawn < most ? drawn : most;
  }
  // Bytes past an aligned address: words, elements of `element` bytes or none.
  size_t misalign(size_t element) {
    return size_t(one_in(2) ? 0 : one_in(2) ? below(2) * 8 : below(16 / element) * element);
  }
  emulated::Manners manners(uint64_t seed) {
    emulated::Manners m;
    m.seed = seed;
    m.looks = of<uint32_t>({1, 2, 4, 16, 64});
    // Short ones often, or rarely one in which others fill all slots.
    m.longest_pause = of<uint32_t>({16, 256, 2048, 65536});
    m.pauses = m.longest_pause > 2048 ? of<uint32_t>({1024, 8192}) : of<uint32_t>({0, 16, 64, 256});
    m.in_flight = of<uint32_t>({0, 8, 64, 256});
    m.arrivals = of<uint32_t>({2, 16, 128, 1024});
    return m;
  }

 private:
  uint64_t state_;
};

inline std::string seed_note(uint64_t seed) {
  return "again: GPU_KERNELS_SEED=" + std::to_string(seed) + " GPU_KERNELS_RUNS=1";
}

}  // namespace emulated_tests
