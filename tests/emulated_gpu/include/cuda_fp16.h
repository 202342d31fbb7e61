// In place of CUDA's header: what the kernels use of float16, by the host's own conversions.
#pragma once
#include <cuda_runtime.h>

#include "kernels/cpu/reduce.h"

struct __half_raw {
  uint16_t x;
};
struct __half {
  uint16_t bits = 0;
  __half() = default;
  __half(const __half_raw& raw) : bits(raw.x) {}
};
struct __half2_raw {
  uint16_t x, y;
};
struct __half2 {
  __half x, y;
  __half2(const __half2_raw& raw) : x(__half_raw{raw.x}), y(__half_raw{raw.y}) {}
};

inline __half __ushort_as_half(uint16_t bits) {
  return __half_raw{bits};
}
inline uint16_t __half_as_ushort(__half v) {
  return v.bits;
}
inline float __half2float(__half v) {
  return collctl::kernels::widen_to_float32(collctl::kernels::DataType::float16, v.bits);
}
inline __half __float2half_rn(float v) {
  return __half_raw{
      uint16_t(collctl::kernels::narrow_from_float32(collctl::kernels::DataType::float16, v))};
}
inline float2 __half22float2(const __half2& v) {
  return {__half2float(v.x), __half2float(v.y)};
}
