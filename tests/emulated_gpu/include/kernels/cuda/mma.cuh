// In place of kernels/cuda/mma.cuh: the same units, each sum one product after the other in the
// order of the depth.
#pragma once
#include <cuda_runtime.h>

#include <cmath>

#include "kernels/cpu/reduce.h"

namespace collctl::kernels::cuda {
namespace emulation {

struct Words {
  uint32_t of[32][4];
};
// All lanes' words, two at a time.
template <int kWords>
Words brought(const uint32_t* mine) {
  Words all{};
  for (int w = 0; w < kWords; w += 2) {
    const emulated::Brought& pair =
        emulated::machine().meet(emulated::Meeting::shuffle, ~0u, mine[w], mine[w + 1]);
    for (int lane = 0; lane < 32; ++lane) {
      all.of[lane][w] = uint32_t(pair.a[lane]);
      all.of[lane][w + 1] = uint32_t(pair.b[lane]);
    }
  }
  return all;
}

// `kParts` numbers in a word.
template <int kParts, class Number>
void unit(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], Number number) {
  const Words rows = brought<4>(a), columns = brought<2>(b);
  const int lane = int(threadIdx.x) % 32;
  constexpr int kHalf = 4 * kParts;  // of the depth
  for (int s = 0; s < 4; ++s) {
    const int row = lane / 4 + s / 2 * 8, column = lane % 4 * 2 + s % 2;
    for (int k = 0; k < 2 * kHalf; ++k) {
      const int from = k % kHalf / kParts, part = k % kParts;
      const uint32_t left = rows.of[row % 8 * 4 + from][row / 8 + k / kHalf * 2];
      const uint32_t right = columns.of[column * 4 + from][k / kHalf];
      c[s] = std::fma(number(left, part), number(right, part), c[s]);
    }
  }
}

}  // namespace emulation

inline void mma_bf16(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  emulation::unit<2>(c, a, b, [](uint32_t word, int part) {
    return widen_to_float32(DataType::bfloat16, uint16_t(word >> (16 * part)));
  });
}
inline void mma_fp8(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  emulation::unit<4>(c, a, b, [](uint32_t word, int part) {
    return widen_to_float32(DataType::float8e4m3, uint8_t(word >> (8 * part)));
  });
}
inline void mma_fp64(double& c0, double& c1, double a, double b) {
  const emulated::Brought& all =
      emulated::machine().meet(emulated::Meeting::shuffle, ~0u, __builtin_bit_cast(uint64_t, a),
                               __builtin_bit_cast(uint64_t, b));
  const int lane = int(threadIdx.x) % 32;
  for (int k = 0; k < 4; ++k) {
    const auto left = __builtin_bit_cast(double, all.a[lane / 4 * 4 + k]);
    c0 = std::fma(left, __builtin_bit_cast(double, all.b[lane % 4 * 8 + k]), c0);
    c1 = std::fma(left, __builtin_bit_cast(double, all.b[lane % 4 * 8 + 4 + k]), c1);
  }
}

}  // namespace collctl::kernels::cuda
