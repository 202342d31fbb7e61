// In place of CUDA's header: what the kernels use of bfloat16, by the host's own conversions.
#pragma once
#include <cuda_runtime.h>

#include "kernels/cpu/reduce.h"

struct __nv_bfloat16 {
  uint16_t bits;
};

inline __nv_bfloat16 __ushort_as_bfloat16(uint16_t bits) {
  return {bits};
}
inline uint16_t __bfloat16_as_ushort(__nv_bfloat16 v) {
  return v.bits;
}
inline float __bfloat162float(__nv_bfloat16 v) {
  return collctl::kernels::widen_to_float32(collctl::kernels::DataType::bfloat16, v.bits);
}
inline __nv_bfloat16 __float2bfloat16_rn(float v) {
  return {uint16_t(collctl::kernels::narrow_from_float32(collctl::kernels::DataType::bfloat16, v))};
}
