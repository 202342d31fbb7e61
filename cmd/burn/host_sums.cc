#include "cmd/burn/host_sums.h"

#include <bit>
#include <cmath>

namespace collctl::cmd {

namespace {

using namespace kernels::cuda;

constexpr uint32_t kBurnSamples = 64;

// How far a sum may be from the host's, in parts of the sum of all its terms' sizes: tensor cores
// cut off what is far below the largest term. A wrong exponent or sign is beyond it.
constexpr double kBurnTolerance[kBurnTypes] = {1.0 / 65536, 1.0 / 512, 1.0 / 65536, 0x1p-44};

}  // namespace

std::vector<HostSum> host_sums(BurnType type, const BurnShape& shape) {
  const uint32_t depth = shape.steps * burn_unit(type).depth;
  std::vector<HostSum> sums(kBurnSamples);
  for (uint32_t i = 0; i < kBurnSamples; ++i) {
    HostSum& made = sums[i];
    made.row = burn_bits(1, i) % shape.rows;
    made.column = burn_bits(2, i) % shape.columns;
    made.word = burn_c(type, shape, made.row, made.column);
    made.wide = type == BurnType::fp64;
    double sizes = 0;
    for (uint32_t k = 0; k < depth; ++k) {
      const double term = burn_value(type, kBurnSeed, burn_a(type, shape, made.row, k)) *
                          burn_value(type, kBurnSeed + 1, burn_b(type, shape, made.column, k));
      made.sum += term;
      sizes += std::abs(term);
    }
    made.tolerance = kBurnTolerance[size_t(type)] * sizes;
  }
  return sums;
}

uint64_t HostSum::bits() const {
  return wide ? std::bit_cast<uint64_t>(sum) : std::bit_cast<uint32_t>(float(sum));
}

bool HostSum::is_near(uint64_t found) const {
  const double value =
      wide ? std::bit_cast<double>(found) : double(std::bit_cast<float>(uint32_t(found)));
  return std::abs(value - sum) <= tolerance;
}

}  // namespace collctl::cmd
