// In place of CUDA's header: what the kernels use of float8, by the host's own conversions.
#pragma once
#include <cuda_fp16.h>

enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 };
enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE };

inline collctl::kernels::DataType fp8_type(__nv_fp8_interpretation_t kind) {
  return kind == __NV_E4M3 ? collctl::kernels::DataType::float8e4m3
                           : collctl::kernels::DataType::float8e5m2;
}
// Every float8 is a float16.
inline __half_raw __nv_cvt_fp8_to_halfraw(uint8_t v, __nv_fp8_interpretation_t kind) {
  return {__half_as_ushort(__float2half_rn(collctl::kernels::widen_to_float32(fp8_type(kind), v)))};
}
inline __half2_raw __nv_cvt_fp8x2_to_halfraw2(uint16_t v, __nv_fp8_interpretation_t kind) {
  return {__nv_cvt_fp8_to_halfraw(uint8_t(v), kind).x,
          __nv_cvt_fp8_to_halfraw(uint8_t(v >> 8), kind).x};
}
inline uint8_t __nv_cvt_float_to_fp8(float v, __nv_saturation_t, __nv_fp8_interpretation_t kind) {
  return uint8_t(collctl::kernels::narrow_from_float32(fp8_type(kind), v));
}
inline uint16_t __nv_cvt_float2_to_fp8x2(float2 v, __nv_saturation_t saturation,
                                         __nv_fp8_interpretation_t kind) {
  return uint16_t(__nv_cvt_float_to_fp8(v.x, saturation, kind) |
                  __nv_cvt_float_to_fp8(v.y, saturation, kind) << 8);
}
