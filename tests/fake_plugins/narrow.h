// Floats of 8 and 16 bits, by the meaning of their bits alone: for what the tests' own network
// calculates, and what they expect. Pure; any thread.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>

namespace fake_plugin {

// Narrow floats by their parts: value = mantissa x 2^(exponent - bias).
struct Narrow {
  int exponent_bits, mantissa_bits;
  bool infinite;  // has infinities; else the largest number stands for what is beyond
};
inline Narrow narrow_of(int type) {
  return type == 6    ? Narrow{5, 10, true}
         : type == 9  ? Narrow{8, 7, true}
         : type == 10 ? Narrow{4, 3, false}
                      : Narrow{5, 2, false};
}

inline double widened(Narrow n, uint32_t bits) {
  const int bias = (1 << (n.exponent_bits - 1)) - 1;
  const uint32_t mantissa = bits & ((1u << n.mantissa_bits) - 1);
  const int exponent = int(bits >> n.mantissa_bits) & ((1 << n.exponent_bits) - 1);
  const double sign = (bits >> (n.mantissa_bits + n.exponent_bits) & 1) != 0 ? -1 : 1;
  const bool top = exponent == (1 << n.exponent_bits) - 1;
  if (n.exponent_bits == 4 && top && mantissa == 7) return NAN;
  if (n.exponent_bits != 4 && top) return mantissa == 0 ? sign * INFINITY : NAN;
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - n.mantissa_bits);
  return sign * std::ldexp(mantissa + (1 << n.mantissa_bits), exponent - bias - n.mantissa_bits);
}

// The nearest, ties to the even one: found by the spacing of numbers of its size.
inline uint32_t narrowed(Narrow n, double value) {
  const int bias = (1 << (n.exponent_bits - 1)) - 1;
  const uint32_t sign = std::signbit(value) ? 1u << (n.mantissa_bits + n.exponent_bits) : 0;
  const uint32_t infinity = ((1u << n.exponent_bits) - 1) << n.mantissa_bits;
  if (std::isnan(value))
    return n.exponent_bits == 4 ? 0x7f : infinity | 1u << (n.mantissa_bits - 1);
  const uint32_t largest = n.exponent_bits == 4 ? 0x7e : infinity - 1;
  const double size = std::fabs(value);
  int exponent = size == 0 ? 1 - bias : std::max(std::ilogb(size), 1 - bias);
  double steps = std::nearbyint(std::ldexp(size, n.mantissa_bits - exponent));
  if (steps == double(2u << n.mantissa_bits)) {
    steps /= 2;
    ++exponent;
  }
  const bool normal = steps >= double(1u << n.mantissa_bits);
  const double bits =
      std::isinf(size)
          ? INFINITY
          : steps + (normal ? double(exponent + bias - 1) * (1u << n.mantissa_bits) : 0);
  if (bits > largest) return sign | (n.infinite ? infinity : largest);
  return sign | uint32_t(bits);
}

}  // namespace fake_plugin
