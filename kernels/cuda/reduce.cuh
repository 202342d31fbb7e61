// Element arithmetic on the device: what a DataType is stored as, what it accumulates in, and the
// operations. Number meaning as on the CPU (kernels/cpu/reduce.h): integers wrap, narrow floats
// accumulate in float32 and are rounded to nearest even once, fp8 saturates, min and max ignore a
// NaN, avg divides at the end (integers truncate).
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>
#include <type_traits>

#include "kernels/contract/types.h"

namespace collctl::kernels::cuda {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 890
inline constexpr bool kHasFloat8 = true;
#else
inline constexpr bool kHasFloat8 = false;
#endif

template <class Number>
struct PlainElement {
  using Storage = Number;
  using Accumulator = Number;
  static __device__ Number widen(Number v) { return v; }
  static __device__ Number narrow(Number v) { return v; }
};
// Integers and floats that are computed as they are stored. (Sums and products of signed integers
// run unsigned: wrapping is then defined.) Storage is plain bits, so that volatile and vector moves
// need no special members.
template <DataType kType>
struct Element : PlainElement<StorageOf<kType>> {
  static_assert(number_kind(kType) != NumberKind::narrow, "a narrow float has an Element below");
};
template <>
struct Element<DataType::float16> {
  using Storage = uint16_t;
  using Accumulator = float;
  static __device__ float widen(uint16_t v) { return __half2float(__ushort_as_half(v)); }
  static __device__ uint16_t narrow(float v) { return __half_as_ushort(__float2half_rn(v)); }
};
template <>
struct Element<DataType::bfloat16> {
  using Storage = uint16_t;
  using Accumulator = float;
  static __device__ float widen(uint16_t v) { return __bfloat162float(__ushort_as_bfloat16(v)); }
  static __device__ uint16_t narrow(float v) {
    return __bfloat16_as_ushort(__float2bfloat16_rn(v));
  }
};
template <__nv_fp8_interpretation_t kKind>
struct Fp8Element {
  using Storage = uint8_t;
  using Accumulator = float;
  static __device__ float widen(uint8_t v) {
    return __half2float(__half(__nv_cvt_fp8_to_halfraw(v, kKind)));
  }
  static __device__ uint8_t narrow(float v) {
    return __nv_cvt_float_to_fp8(v, __NV_SATFINITE, kKind);
  }
};
template <>
struct Element<DataType::float8e4m3> : Fp8Element<__NV_E4M3> {};
template <>
struct Element<DataType::float8e5m2> : Fp8Element<__NV_E5M2> {};

template <RedOp kOp>
struct Operator {
  template <class A>
  static __device__ A apply(A a, A b) {
    if constexpr (kOp == RedOp::sum || kOp == RedOp::avg || kOp == RedOp::prod) {
      constexpr bool kProduct = kOp == RedOp::prod;
      if constexpr (std::is_integral_v<A>) {
        using Wide = std::conditional_t<sizeof(A) == 8, uint64_t, uint32_t>;
        return static_cast<A>(kProduct ? Wide(a) * Wide(b) : Wide(a) + Wide(b));
      } else {
        return kProduct ? a * b : a + b;
      }
    } else if constexpr (std::is_integral_v<A>) {
      return (kOp == RedOp::min) == (b < a) ? b : a;
    } else if constexpr (sizeof(A) == 8) {
      return kOp == RedOp::min ? fmin(a, b) : fmax(a, b);
    } else {
      return kOp == RedOp::min ? fminf(a, b) : fmaxf(a, b);
    }
  }
  template <class A>
  static __device__ A finish(A a, int nranks) {
    if constexpr (kOp != RedOp::avg) return a;
    // Divided in a wider type: the number of ranks need not fit a narrow integer.
    if constexpr (!std::is_integral_v<A>) return a / static_cast<A>(nranks);
    if constexpr (std::is_unsigned_v<A>) return static_cast<A>(uint64_t(a) / uint64_t(nranks));
    return static_cast<A>(int64_t(a) / int64_t(nranks));
  }
};

}  // namespace collctl::kernels::cuda
