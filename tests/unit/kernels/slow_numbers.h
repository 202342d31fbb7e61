// Slow, independent arithmetic for the kernel tests: narrow floats by their definition (sign,
// power of two, fraction) and reductions one element at a time in wide types. Shares no code with
// the product.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "kernels/contract/types.h"

namespace slow {

using collctl::kernels::DataType;
using collctl::kernels::NumberKind;
using collctl::kernels::RedOp;

struct Shape {
  int exponent_bits, mantissa_bits;
  bool has_infinity;  // else only the all-ones code is a NaN
  bool saturates;
};
inline Shape shape_of(DataType type) {
  switch (type) {
    case DataType::float16:
      return {5, 10, true, false};
    case DataType::bfloat16:
      return {8, 7, true, false};
    case DataType::float8e4m3:
      return {4, 3, false, true};
    default:
      return {5, 2, true, true};
  }
}
inline bool is_narrow(DataType type) {
  return number_kind(type) == NumberKind::narrow;
}
inline bool is_float(DataType type) {
  return number_kind(type) != NumberKind::integer;
}

// The value of a code, by the definition of the format.
inline double decode(DataType type, uint32_t code) {
  const Shape s = shape_of(type);
  const int bias = (1 << (s.exponent_bits - 1)) - 1;
  const int sign = int(code >> (s.exponent_bits + s.mantissa_bits)) & 1;
  const int exponent = int(code >> s.mantissa_bits) & ((1 << s.exponent_bits) - 1);
  const int fraction = int(code) & ((1 << s.mantissa_bits) - 1);
  const int top = (1 << s.exponent_bits) - 1;
  double value;
  if (exponent == top && s.has_infinity)
    value = fraction == 0 ? HUGE_VAL : NAN;
  else if (exponent == top && fraction == (1 << s.mantissa_bits) - 1)
    value = NAN;
  else if (exponent == 0)
    value = std::ldexp(double(fraction), 1 - bias - s.mantissa_bits);
  else
    value =
        std::ldexp(double(fraction + (1 << s.mantissa_bits)), exponent - bias - s.mantissa_bits);
  return std::copysign(value, sign ? -1.0 : 1.0);
}

// The code nearest to a value, ties to the even code: a search over all positive codes.
inline uint32_t encode(DataType type, float value) {
  const Shape s = shape_of(type);
  const uint32_t sign = std::signbit(value) ? 1u << (s.exponent_bits + s.mantissa_bits) : 0;
  const double magnitude = std::fabs(double(value));
  uint32_t finite = 0;  // the largest finite code
  const uint32_t codes = 1u << (s.exponent_bits + s.mantissa_bits);
  for (finite = codes - 1; !std::isfinite(decode(type, finite)); --finite) {
  }
  if (std::isnan(value)) {
    uint32_t nan = codes - 1;
    return sign | nan;
  }
  uint32_t low = 0, high = finite;  // binary search: codes of positive values are ordered
  while (low < high) {
    const uint32_t middle = (low + high + 1) / 2;
    if (decode(type, middle) <= magnitude)
      low = middle;
    else
      high = middle - 1;
  }
  const double below = decode(type, low);
  if (low == finite) {
    // The next code would be one step up; past half of that step the value is out of range.
    const double step = below - decode(type, low - 1);
    const bool out =
        magnitude - below > step / 2 || (magnitude - below == step / 2 && low % 2 == 1);
    return sign | (out && !s.saturates ? low + 1 : low);
  }
  const double above = decode(type, low + 1);
  const bool up = magnitude - below > above - magnitude ||
                  (magnitude - below == above - magnitude && low % 2 == 1);
  return sign | (up ? low + 1 : low);
}

template <class T>
T load(const uint8_t* p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

template <class F>
F combine_floats(RedOp op, F a, F b) {
  switch (op) {
    case RedOp::prod:
      return a * b;
    case RedOp::min:
      return std::isnan(a) ? b : std::isnan(b) ? a : b < a ? b : a;
    case RedOp::max:
      return std::isnan(a) ? b : std::isnan(b) ? a : a < b ? b : a;
    default:
      return a + b;
  }
}

template <class T>
T reduce_integers(RedOp op, const std::vector<const uint8_t*>& sources, uint32_t divisor) {
  T result = load<T>(sources[0]);
  for (size_t i = 1; i < sources.size(); ++i) {
    const T next = load<T>(sources[i]);
    if (op == RedOp::min)
      result = next < result ? next : result;
    else if (op == RedOp::max)
      result = next > result ? next : result;
    else if (op == RedOp::prod)
      result = static_cast<T>(static_cast<uint64_t>(result) * static_cast<uint64_t>(next));
    else
      result = static_cast<T>(static_cast<uint64_t>(result) + static_cast<uint64_t>(next));
  }
  using Wide = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
  if (divisor > 1) result = static_cast<T>(Wide(result) / Wide(divisor));
  return result;
}

template <class F>
F reduce_floats(RedOp op, const std::vector<F>& values, uint32_t divisor) {
  F result = values[0];
  for (size_t i = 1; i < values.size(); ++i) result = combine_floats(op, result, values[i]);
  if (divisor > 1) result = result / F(divisor);
  return result;
}

template <class T>
void store(uint8_t* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

// One element of every source, in order, into `to`.
inline void reduce_element(DataType type, RedOp op, const std::vector<const uint8_t*>& sources,
                           uint32_t divisor, uint8_t* to) {
  if (is_narrow(type)) {
    const bool one_byte = collctl::kernels::element_size(type) == 1;
    std::vector<float> values;
    for (const uint8_t* s : sources)
      values.push_back(float(decode(type, one_byte ? *s : load<uint16_t>(s))));
    const uint32_t code = encode(type, reduce_floats(op, values, divisor));
    one_byte ? store(to, uint8_t(code)) : store(to, uint16_t(code));
    return;
  }
  const auto floats = [&]<class F>(F) {
    std::vector<F> values;
    for (const uint8_t* s : sources) values.push_back(load<F>(s));
    store(to, reduce_floats(op, values, divisor));
  };
  const auto number = [&]<DataType kType>() {
    using T = collctl::kernels::StorageOf<kType>;
    if constexpr (collctl::kernels::number_kind(kType) == NumberKind::integer)
      store(to, reduce_integers<T>(op, sources, divisor));
    else if constexpr (collctl::kernels::number_kind(kType) == NumberKind::real)
      floats(T());
  };
  switch (type) {
#define COLL_DATA_TYPE(id, ...) \
  case DataType::id:            \
    return number.template operator()<DataType::id>();
#include "kernels/contract/data_types.inc"
  }
}

// Equal bits, or both a NaN.
inline bool same_element(DataType type, const uint8_t* a, const uint8_t* b) {
  const size_t bytes = collctl::kernels::element_size(type);
  if (std::memcmp(a, b, bytes) == 0) return true;
  if (!is_float(type)) return false;
  if (type == DataType::float64) return std::isnan(load<double>(a)) && std::isnan(load<double>(b));
  if (type == DataType::float32) return std::isnan(load<float>(a)) && std::isnan(load<float>(b));
  if (bytes == 1) return std::isnan(decode(type, *a)) && std::isnan(decode(type, *b));
  return std::isnan(decode(type, load<uint16_t>(a))) && std::isnan(decode(type, load<uint16_t>(b)));
}

}  // namespace slow
