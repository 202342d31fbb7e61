// Sums of a GPU's products that the host makes as well. Pure.
#pragma once
#include <cstdint>
#include <vector>

#include "kernels/cuda/burn.h"

namespace collctl::cmd {

// A number for the inputs of all products: of matrix a; of b one more.
inline constexpr uint64_t kBurnSeed = 20;

struct HostSum {
  uint32_t row = 0, column = 0;
  uint64_t word = 0;  // of the product, where it stands
  double sum = 0, tolerance = 0;
  bool wide = false;      // 64 bits, else 32
  uint64_t bits() const;  // in the product's format
  // Whether a GPU's, as it stands in the product, is as near as its arithmetic allows; NaN is not.
  bool is_near(uint64_t found) const;
};
// Elements that are spread over the product, the same ones each time.
std::vector<HostSum> host_sums(kernels::cuda::BurnType type, const kernels::cuda::BurnShape& shape);

}  // namespace collctl::cmd
