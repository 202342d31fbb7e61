// Arithmetic on 8 bytes at a time: the elements of a word, widened, combined and narrowed. Also the
// dispatch from a type and an operation known at run time to code compiled for them.
//
// Compiled code exists for sum, prod, min and max; avg is a sum that is divided at the end, and
// signed and unsigned integers share their sums and products, whose bits are the same (only the
// division asks for the sign). float8 has no arithmetic before sm_89 and is left out there.
#pragma once
#include "kernels/cuda/reduce.cuh"

namespace collctl::kernels::cuda {

// The step that gives a value its final form.
struct Finish {
  uint32_t divisor = 1;
  bool is_signed = false;
};

template <DataType kType>
struct Lanes {
  using E = Element<kType>;
  using T = typename E::Storage;
  using A = typename E::Accumulator;
  static constexpr int kCount = 8 / sizeof(T);
  A lane[kCount];
};

template <DataType kType>
__device__ __forceinline__ Lanes<kType> unpack(uint64_t word) {
  using L = Lanes<kType>;
  L lanes;
  if constexpr (is_float8(kType)) {
    constexpr auto kKind = kType == DataType::float8e4m3 ? __NV_E4M3 : __NV_E5M2;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 pair =
          __half22float2(__half2(__nv_cvt_fp8x2_to_halfraw2(uint16_t(word >> (16 * i)), kKind)));
      lanes.lane[2 * i] = pair.x;
      lanes.lane[2 * i + 1] = pair.y;
    }
  } else {
    union {
      uint64_t word;
      typename L::T one[L::kCount];
    } bits;
    bits.word = word;
#pragma unroll
    for (int i = 0; i < L::kCount; ++i) lanes.lane[i] = L::E::widen(bits.one[i]);
  }
  return lanes;
}

template <DataType kType>
__device__ __forceinline__ uint64_t pack(const Lanes<kType>& lanes) {
  using L = Lanes<kType>;
  if constexpr (is_float8(kType)) {
    constexpr auto kKind = kType == DataType::float8e4m3 ? __NV_E4M3 : __NV_E5M2;
    uint64_t word = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i)
      word |= uint64_t(__nv_cvt_float2_to_fp8x2(
                  make_float2(lanes.lane[2 * i], lanes.lane[2 * i + 1]), __NV_SATFINITE, kKind))
              << (16 * i);
    return word;
  } else {
    union {
      uint64_t word;
      typename L::T one[L::kCount];
    } bits;
#pragma unroll
    for (int i = 0; i < L::kCount; ++i) bits.one[i] = L::E::narrow(lanes.lane[i]);
    return bits.word;
  }
}

template <DataType kType, RedOp kOp>
__device__ __forceinline__ void combine(Lanes<kType>& into, const Lanes<kType>& other) {
#pragma unroll
  for (int i = 0; i < Lanes<kType>::kCount; ++i)
    into.lane[i] = Operator<kOp>::apply(into.lane[i], other.lane[i]);
}

// Out of line: the code of divisions is long, and few values need one.
static __device__ __noinline__ float divide(float value, uint32_t divisor) {
  return value / static_cast<float>(divisor);
}
static __device__ __noinline__ double divide(double value, uint32_t divisor) {
  return value / static_cast<double>(divisor);
}
// The integers in a word, by the sign of the type that the caller has; toward zero.
template <class Unsigned>
__device__ __noinline__ uint64_t divide_integers(uint64_t word, uint32_t divisor, bool is_signed) {
  using Signed = std::make_signed_t<Unsigned>;
  constexpr int kBits = 8 * sizeof(Unsigned);
  uint64_t result = 0;
#pragma unroll 1
  for (int at = 0; at < 64; at += kBits) {
    const Unsigned value = Unsigned(word >> at);
    const Unsigned quotient = is_signed ? Unsigned(int64_t(Signed(value)) / int64_t(divisor))
                                        : Unsigned(uint64_t(value) / divisor);
    result |= uint64_t(quotient) << at;
  }
  return result;
}

template <DataType kType>
inline constexpr bool kIsInteger = std::is_integral_v<typename Element<kType>::Accumulator>;

// Whether dividing is multiplying by 1 / divisor, which is exact for powers of two.
template <DataType kType>
__device__ __forceinline__ bool scales(const Finish& last) {
  return last.divisor <= 1 || (!kIsInteger<kType> && (last.divisor & (last.divisor - 1)) == 0);
}
template <DataType kType, RedOp kOp>
__device__ __forceinline__ uint64_t pack_scaled(Lanes<kType>& lanes, const Finish& last) {
  if constexpr (kOp == RedOp::sum && !kIsInteger<kType>) {
    using A = typename Lanes<kType>::A;
    if (last.divisor > 1) {
      const A scale = A(1) / A(last.divisor);
#pragma unroll
      for (int i = 0; i < Lanes<kType>::kCount; ++i) lanes.lane[i] *= scale;
    }
  }
  return pack(lanes);
}
// Any divisor. Only sums are divided.
template <DataType kType, RedOp kOp>
__device__ __forceinline__ uint64_t pack_finished(Lanes<kType>& lanes, const Finish& last) {
  if constexpr (kOp == RedOp::sum) {
    if constexpr (kIsInteger<kType>) {
      using Unsigned = std::make_unsigned_t<typename Lanes<kType>::A>;
      const uint64_t word = pack(lanes);
      return last.divisor > 1 ? divide_integers<Unsigned>(word, last.divisor, last.is_signed)
                              : word;
    } else if (!scales<kType>(last)) {
#pragma unroll
      for (int i = 0; i < Lanes<kType>::kCount; ++i)
        lanes.lane[i] = divide(lanes.lane[i], last.divisor);
      return pack(lanes);
    }
  }
  return pack_scaled<kType, kOp>(lanes, last);
}

// --- From run time to compile time

// The operation that is compiled for it.
COLL_FN constexpr RedOp compiled_op(RedOp op) {
  return op == RedOp::avg ? RedOp::sum : op;
}
template <template <DataType, RedOp> class Loop, DataType kType, class... Args>
__device__ __forceinline__ void with_op(RedOp op, const Args&... args) {
  if constexpr (!is_float8(kType) || kHasFloat8) {
    constexpr DataType kShared = unsigned_of(kType);
    switch (compiled_op(op)) {
      case RedOp::prod:
        return Loop<kShared, RedOp::prod>::run(args...);
      case RedOp::min:
        return Loop<kType, RedOp::min>::run(args...);
      case RedOp::max:
        return Loop<kType, RedOp::max>::run(args...);
      default:
        return Loop<kShared, RedOp::sum>::run(args...);
    }
  }
}

// Loop<type, op>::run(args...), which should not be inlined.
template <template <DataType, RedOp> class Loop, class... Args>
__device__ __forceinline__ void with_type_and_op(DataType type, RedOp op, const Args&... args) {
  switch (type) {
#define COLL_DATA_TYPE(id, ...) \
  case DataType::id:            \
    return with_op<Loop, DataType::id>(op, args...);
#include "kernels/contract/data_types.inc"
  }
}

}  // namespace collctl::kernels::cuda
