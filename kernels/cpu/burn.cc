#include "kernels/cpu/burn.h"

#include <cstring>

namespace collctl::kernels {
namespace {

constexpr int kChains = 12;  // side by side: they hide the time of a step

struct Two {
  typedef double Vector __attribute__((vector_size(16)));
};
struct Four {
  typedef double Vector __attribute__((vector_size(32)));
};
struct Eight {
  typedef double Vector __attribute__((vector_size(64)));
};

// Always inlined, into functions that may use the instructions for such vectors.
template <class Of>
[[gnu::always_inline]] inline void run_chains(uint64_t steps, bool flip, CoreBurn& out) {
  using Vector = typename Of::Vector;
  constexpr int kLanes = sizeof(Vector) / sizeof(double);
  static_assert(kChains * kLanes <= kMostBurnNumbers);
  Vector x[kChains];
  for (int c = 0; c < kChains; ++c)
    for (int l = 0; l < kLanes; ++l) x[c][l] = 0.1 + 0.007 * (c * kLanes + l);
  const Vector r = Vector{} + 3.9921875;
  const auto run = [&](uint64_t count) __attribute__((always_inline)) {
    for (uint64_t i = 0; i < count; ++i)
      for (int c = 0; c < kChains; ++c) x[c] = r * (x[c] - x[c] * x[c]);
  };
  run(steps / 2);
  if (flip) {
    uint64_t bits = 0;
    const double before = x[kChains / 2][0];
    std::memcpy(&bits, &before, sizeof bits);
    bits ^= 1u << 13;
    double after = 0;
    std::memcpy(&after, &bits, sizeof bits);
    x[kChains / 2][0] = after;
  }
  run(steps - steps / 2);
  out.count = kChains * kLanes;
  std::memcpy(out.bits, x, sizeof x);
}

void run_128(uint64_t steps, bool flip, CoreBurn& out) {
  run_chains<Two>(steps, flip, out);
}

using Run = void (*)(uint64_t, bool, CoreBurn&);
struct Vectors {
  Run run;
  int lanes;
  const char* name;
};

#if defined(__x86_64__)
[[gnu::target("avx2,fma")]] void run_avx2(uint64_t steps, bool flip, CoreBurn& out) {
  run_chains<Four>(steps, flip, out);
}
[[gnu::target("avx512f")]] void run_avx512(uint64_t steps, bool flip, CoreBurn& out) {
  run_chains<Eight>(steps, flip, out);
}
Vectors widest() {
  if (__builtin_cpu_supports("avx512f")) return {run_avx512, 8, "AVX-512"};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return {run_avx2, 4, "AVX2"};
  return {run_128, 2, "128 bits"};
}
#else
Vectors widest() {
  return {run_128, 2, "128 bits"};
}
#endif

const Vectors& vectors() {
  static const Vectors chosen = widest();
  return chosen;
}

}  // namespace

CoreBurn burn_core(uint64_t steps, bool flip) {
  CoreBurn out;
  vectors().run(steps, flip, out);
  return out;
}

double burn_core_flops(uint64_t steps) {
  return 3.0 * double(steps) * kChains * vectors().lanes;
}

const char* burn_core_vectors() {
  return vectors().name;
}

}  // namespace collctl::kernels
