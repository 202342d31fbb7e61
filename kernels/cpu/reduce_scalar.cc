// The level every machine has: one element at a time, no machine flags. Also home of the public
// conversions.
#define COLL_SIMD_LEVEL scalar
#define COLL_SIMD_BYTES 0
#include "base/check.h"
#include "kernels/cpu/reduce_loops.h"

namespace collctl::kernels {

const ReduceTable* scalar_reduce_table() {
  return &scalar::kTable;
}

float widen_to_float32(DataType type, uint32_t bits) {
  switch (type) {
    case DataType::float16:
      return scalar::widen<scalar::Float16, 1>(bits & 0xffff);
    case DataType::bfloat16:
      return __builtin_bit_cast(float, bits << 16);
    case DataType::float8e4m3:
      return scalar::widen<scalar::Float8E4m3, 1>(bits & 0xff);
    case DataType::float8e5m2:
      return scalar::widen<scalar::Float8E5m2, 1>(bits & 0xff);
    default:
      COLL_CHECK_NOTE(false, "not a narrow float");
  }
}

uint32_t narrow_from_float32(DataType type, float value) {
  uint16_t bits = 0;
  switch (type) {
    case DataType::float16:
      return scalar::narrow<scalar::Float16, 1>(value);
    case DataType::bfloat16:
      scalar::NarrowLanes<scalar::BFloat16, 1>::store(reinterpret_cast<uint8_t*>(&bits), value);
      return bits;
    case DataType::float8e4m3:
      return scalar::narrow<scalar::Float8E4m3, 1>(value);
    case DataType::float8e5m2:
      return scalar::narrow<scalar::Float8E5m2, 1>(value);
    default:
      COLL_CHECK_NOTE(false, "not a narrow float");
  }
}

}  // namespace collctl::kernels
