#include "cmd/verify/number_forms.h"

#include <bit>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace collctl::cmd {

using kernels::DataType;

bool is_float(DataType type) {
  return kernels::number_kind(type) != kernels::NumberKind::integer;
}

const FloatForm& float_form(DataType type) {
  struct Row {
    DataType type;
    FloatForm form;
  };
  static constexpr Row kForms[] = {
      {DataType::float16, {5, 10, 15, 65504.0, false, 1}},
      {DataType::bfloat16, {8, 7, 127, 3.3895313892515355e38, false, 0}},
      {DataType::float32, {8, 23, 127, std::numeric_limits<float>::max(), false, 0}},
      {DataType::float64, {11, 52, 1023, std::numeric_limits<double>::max(), false, 0}},
      {DataType::float8e4m3, {4, 3, 7, 448.0, true, 1}},
      {DataType::float8e5m2, {5, 2, 15, 57344.0, true, 9}},
  };
  for (const Row& row : kForms)
    if (row.type == type) return row.form;
  COLL_CHECK_NOTE(false, "not a floating point type");
}

uint64_t encode_float(DataType type, double value) {
  if (type == DataType::float64) return std::bit_cast<uint64_t>(value);
  if (type == DataType::float32) return std::bit_cast<uint32_t>(float(value));
  const FloatForm& form = float_form(type);
  const uint64_t exponent_mask = (1u << form.exponent_bits) - 1;
  const uint64_t sign = uint64_t(std::signbit(value)) << (form.exponent_bits + form.mantissa_bits);
  const double size = std::fabs(value);
  if (size == 0) return sign;
  COLL_CHECK(std::isfinite(size));
  // Rounded in units of the last mantissa bit of the value's own binade (subnormals: of the least).
  const int exponent = std::max(std::ilogb(size), 1 - form.bias);
  double units = std::nearbyint(std::ldexp(size, form.mantissa_bits - exponent));
  const double rounded = std::ldexp(units, exponent - form.mantissa_bits);
  if (rounded > form.max_finite) {
    if (form.saturates) return encode_float(type, std::copysign(form.max_finite, value));
    return sign | exponent_mask << form.mantissa_bits;
  }
  // A carry into the next binade adds one to the exponent field by itself.
  const uint64_t bits = uint64_t(units);
  const uint64_t field = bits >> form.mantissa_bits == 0 ? 0 : uint64_t(exponent + form.bias - 1);
  return sign | ((field << form.mantissa_bits) + bits);
}

double decode_float(DataType type, uint64_t bits) {
  if (type == DataType::float64) return std::bit_cast<double>(bits);
  if (type == DataType::float32) return double(std::bit_cast<float>(uint32_t(bits)));
  const FloatForm& form = float_form(type);
  const uint64_t exponent_mask = (1u << form.exponent_bits) - 1;
  const uint64_t mantissa = bits & ((1u << form.mantissa_bits) - 1);
  const uint64_t field = bits >> form.mantissa_bits & exponent_mask;
  const bool negative = (bits >> (form.exponent_bits + form.mantissa_bits) & 1) != 0;
  double size = 0;
  if (field == 0) {
    size = std::ldexp(double(mantissa), 1 - form.bias - form.mantissa_bits);
  } else {
    size = std::ldexp(double(mantissa | 1u << form.mantissa_bits),
                      int(field) - form.bias - form.mantissa_bits);
    if (size > form.max_finite)
      size = mantissa == 0 ? std::numeric_limits<double>::infinity()
                           : std::numeric_limits<double>::quiet_NaN();
  }
  return negative ? -size : size;
}

uint64_t wrap_integer(DataType type, uint64_t value) {
  const uint32_t unused = 64 - 8 * kernels::element_size(type);
  return is_signed_integer(type) ? uint64_t(int64_t(value << unused) >> unused)
                                 : value << unused >> unused;
}

int64_t order_key(DataType type, uint64_t bits) {
  constexpr uint64_t kTop = uint64_t(1) << 63;
  if (is_float(type)) {
    const int width = int(kernels::element_size(type)) * 8;
    const uint64_t sign = uint64_t(1) << (width - 1);
    const auto size = int64_t(bits & (sign - 1));
    return (bits & sign) != 0 ? -size : size;
  }
  if (is_signed_integer(type)) return int64_t(wrap_integer(type, bits));
  return int64_t(bits ^ kTop);
}

}  // namespace collctl::cmd
