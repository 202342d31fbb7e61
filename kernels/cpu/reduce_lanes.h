// How values are loaded, widened, rounded and stored, N at a time: N = 1 is plain C++, N > 1 the
// compiler's vector types. Included by one source file per SIMD level, each compiled with its own
// machine flags; everything lies in that level's namespace (COLL_SIMD_LEVEL), and no library
// template is used, so that no code for a newer machine can be merged into the scalar level.
#pragma once
#include <cstdint>

#include "kernels/contract/types.h"

#if defined(__F16C__)
#include <immintrin.h>
#endif

namespace collctl::kernels::COLL_SIMD_LEVEL {

template <class T, int N>
struct VectorOf {
  typedef T Type __attribute__((vector_size(sizeof(T) * N)));
};
template <class T>
struct VectorOf<T, 1> {
  using Type = T;
};
template <class T, int N>
using Vector = typename VectorOf<T, N>::Type;

template <class To, class From>
inline To bits_as(const From& v) {
  return __builtin_bit_cast(To, v);
}
// Unaligned and of any type: what a compiler turns into one load or store.
template <class V>
struct Unaligned {
  V v;
} __attribute__((packed, may_alias));
template <class V>
inline V load_raw(const uint8_t* p) {
  return reinterpret_cast<const Unaligned<V>*>(p)->v;
}
template <class V>
inline void store_raw(uint8_t* p, const V& v) {
  reinterpret_cast<Unaligned<V>*>(p)->v = v;
}

// N raw codes as 32-bit words, and back.
template <class Raw, int N>
struct Words {
  using U = Vector<uint32_t, N>;
  static U load(const uint8_t* p) { return load_raw<Raw>(p); }
  static void store(uint8_t* p, const U& v) { store_raw(p, static_cast<Raw>(v)); }
};
#if defined(__ARM_NEON)
template <class Raw>
struct Words<Raw, 4> {
  using U = Vector<uint32_t, 4>;
  using Codes = Vector<Raw, 4>;
  static U load(const uint8_t* p) { return __builtin_convertvector(load_raw<Codes>(p), U); }
  static void store(uint8_t* p, const U& v) { store_raw(p, __builtin_convertvector(v, Codes)); }
};
#endif
#if defined(__AVX2__)
template <>
struct Words<uint16_t, 8> {
  using U = Vector<uint32_t, 8>;
  static U load(const uint8_t* p) {
    return bits_as<U>(_mm256_cvtepu16_epi32(load_raw<__m128i>(p)));
  }
  static void store(uint8_t* p, const U& v) {
    const __m256i w = bits_as<__m256i>(v);
    store_raw(p, _mm_packus_epi32(_mm256_castsi256_si128(w), _mm256_extracti128_si256(w, 1)));
  }
};
template <>
struct Words<uint8_t, 8> {
  using U = Vector<uint32_t, 8>;
  static U load(const uint8_t* p) {
    return bits_as<U>(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128(load_raw<long long>(p))));
  }
  static void store(uint8_t* p, const U& v) {
    const __m256i w = bits_as<__m256i>(v);
    const __m128i half =
        _mm_packus_epi32(_mm256_castsi256_si128(w), _mm256_extracti128_si256(w, 1));
    store_raw(p, static_cast<long long>(_mm_cvtsi128_si64(_mm_packus_epi16(half, half))));
  }
};
#endif
#if defined(__AVX512F__)
// The forms with a zeroing mask: the plain ones read an undefined register in g++ 12's headers,
// which warns.
template <>
struct Words<uint16_t, 16> {
  using U = Vector<uint32_t, 16>;
  static U load(const uint8_t* p) {
    return bits_as<U>(_mm512_maskz_cvtepu16_epi32(0xffff, load_raw<__m256i>(p)));
  }
  static void store(uint8_t* p, const U& v) {
    store_raw(p, _mm512_maskz_cvtepi32_epi16(0xffff, bits_as<__m512i>(v)));
  }
};
template <>
struct Words<uint8_t, 16> {
  using U = Vector<uint32_t, 16>;
  static U load(const uint8_t* p) {
    return bits_as<U>(_mm512_maskz_cvtepu8_epi32(0xffff, load_raw<__m128i>(p)));
  }
  static void store(uint8_t* p, const U& v) {
    store_raw(p, _mm512_maskz_cvtepi32_epi8(0xffff, bits_as<__m512i>(v)));
  }
};
#endif

// Numbers that are computed in their own type.
template <class T, int N>
struct PlainLanes {
  using Element = T;
  using Value = Vector<T, N>;
  static constexpr int kLanes = N;
  static constexpr int kElementBytes = sizeof(T);
  static Value load(const uint8_t* p) { return load_raw<Value>(p); }
  static void store(uint8_t* p, const Value& v) { store_raw(p, v); }
};

// A float of kWidth bits, kMantissa of them and a sign. kTop is the largest code a finite value may
// round to (infinity's where there is one and values do not saturate), kNan the quiet NaN.
template <DataType kType>
struct NarrowFloat;
template <>
struct NarrowFloat<DataType::float16> {
  using Raw = uint16_t;
  static constexpr int kMantissa = 10, kBias = 15, kWidth = 16;
  static constexpr int32_t kTop = 0x7c00, kNan = 0x7e00, kFirstSpecial = 0x7c00;
  static constexpr bool kKeepsPayload = true;
};
template <>
struct NarrowFloat<DataType::float8e4m3> {
  using Raw = uint8_t;
  static constexpr int kMantissa = 3, kBias = 7, kWidth = 8;
  static constexpr int32_t kTop = 0x7e, kNan = 0x7f, kFirstSpecial = 0x7f;
  static constexpr bool kKeepsPayload = false;
};
template <>
struct NarrowFloat<DataType::float8e5m2> {
  using Raw = uint8_t;
  static constexpr int kMantissa = 2, kBias = 15, kWidth = 8;
  static constexpr int32_t kTop = 0x7b, kNan = 0x7e, kFirstSpecial = 0x7c;
  static constexpr bool kKeepsPayload = false;
};
template <>
struct NarrowFloat<DataType::bfloat16> {
  using Raw = uint16_t;
};
using Float16 = NarrowFloat<DataType::float16>;
using BFloat16 = NarrowFloat<DataType::bfloat16>;

// 2^exponent as a float.
constexpr float power_of_two(int exponent) {
  return __builtin_bit_cast(float, uint32_t(exponent + 127) << 23);
}

// Widening: the magnitude's bits are moved to float32's places and scaled by the difference of the
// biases; the product is exact, subnormals included.
template <class F, int N>
inline Vector<float, N> widen(const Vector<uint32_t, N>& raw) {
  using U = Vector<uint32_t, N>;
  using I = Vector<int32_t, N>;
  const U magnitude = raw & ((1u << (F::kWidth - 1)) - 1);
  const U sign = (raw >> (F::kWidth - 1)) << 31;
  const U placed = magnitude << (23 - F::kMantissa);
  const U finite = bits_as<U>(bits_as<Vector<float, N>>(placed) * power_of_two(127 - F::kBias));
  U special;
  if constexpr (F::kFirstSpecial == F::kNan) {
    special = finite * 0u + 0x7fc00000u;
  } else {  // infinity, or a NaN made quiet
    const U quiet = placed | 0x7fc00000u;
    special = bits_as<I>(magnitude) == F::kFirstSpecial ? finite * 0u + 0x7f800000u : quiet;
  }
  const U value = bits_as<I>(magnitude) >= F::kFirstSpecial ? special : finite;
  return bits_as<Vector<float, N>>(value | sign);
}

// Rounding to nearest even. Normal results: add just below half of the last kept bit, plus that bit
// itself, and let the carry run. Subnormal results: adding a float whose last place is the smallest
// subnormal makes the hardware round at the right bit.
template <class F, int N>
inline Vector<uint32_t, N> narrow(const Vector<float, N>& value) {
  using U = Vector<uint32_t, N>;
  using I = Vector<int32_t, N>;
  using V = Vector<float, N>;
  constexpr int kShift = 23 - F::kMantissa;
  constexpr float kMagic = power_of_two(1 - F::kBias - F::kMantissa + 23);
  const U bits = bits_as<U>(value);
  const U sign = (bits >> 31) << (F::kWidth - 1);
  const U magnitude = bits & 0x7fffffffu;
  const U carried = magnitude + ((1u << (kShift - 1)) - 1) + ((magnitude >> kShift) & 1u);
  const I normal = bits_as<I>((carried >> kShift) - (uint32_t(127 - F::kBias) << F::kMantissa));
  const I small =
      bits_as<I>(bits_as<U>(bits_as<V>(magnitude) + kMagic) - bits_as<uint32_t>(kMagic));
  I code = bits_as<I>(magnitude) < ((128 - F::kBias) << 23) ? small : normal;
  code = code < F::kTop ? code : code * 0 + F::kTop;
  I nan = code * 0 + F::kNan;
  if constexpr (F::kKeepsPayload) {
    constexpr uint32_t kPayload = (1u << F::kMantissa) - 1;
    nan = bits_as<I>(bits_as<U>(nan) | ((magnitude >> kShift) & kPayload));
  }
  code = bits_as<I>(magnitude) > 0x7f800000 ? nan : code;
  return bits_as<U>(code) | sign;
}

template <class F, int N>
struct NarrowLanes {
  using Element = float;
  using Value = Vector<float, N>;
  static constexpr int kLanes = N;
  static constexpr int kElementBytes = sizeof(typename F::Raw);
  static Value load(const uint8_t* p) { return widen<F, N>(Words<typename F::Raw, N>::load(p)); }
  static void store(uint8_t* p, const Value& v) {
    Words<typename F::Raw, N>::store(p, narrow<F, N>(v));
  }
};

template <int N>
struct NarrowLanes<BFloat16, N> {
  using Element = float;
  using Value = Vector<float, N>;
  static constexpr int kLanes = N;
  static constexpr int kElementBytes = 2;
  using U = Vector<uint32_t, N>;
  using I = Vector<int32_t, N>;
  static Value load(const uint8_t* p) { return bits_as<Value>(Words<uint16_t, N>::load(p) << 16); }
  static void store(uint8_t* p, const Value& v) {
    const U bits = bits_as<U>(v);
    const U rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    const U quiet = (bits >> 16) | 0x40u;
    const U code = bits_as<I>(bits & 0x7fffffffu) > 0x7f800000 ? quiet : rounded;
    Words<uint16_t, N>::store(p, code);
  }
};

// The hardware's own float16 conversions, where the level has them; the same values. (The forms
// with a zeroing mask: the plain ones read an undefined register in g++ 12's headers, which warns.)
#if defined(__F16C__)
template <>
struct NarrowLanes<Float16, 8> {
  using Element = float;
  using Value = Vector<float, 8>;
  static constexpr int kLanes = 8;
  static constexpr int kElementBytes = 2;
  static Value load(const uint8_t* p) {
    return bits_as<Value>(_mm256_cvtph_ps(load_raw<__m128i>(p)));
  }
  static void store(uint8_t* p, const Value& v) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                     _mm256_cvtps_ph(bits_as<__m256>(v), _MM_FROUND_TO_NEAREST_INT));
  }
};
#endif
#if defined(__AVX512F__)
template <>
struct NarrowLanes<Float16, 16> {
  using Element = float;
  using Value = Vector<float, 16>;
  static constexpr int kLanes = 16;
  static constexpr int kElementBytes = 2;
  static Value load(const uint8_t* p) {
    return bits_as<Value>(_mm512_maskz_cvtph_ps(0xffff, load_raw<__m256i>(p)));
  }
  static void store(uint8_t* p, const Value& v) {
    _mm256_storeu_si256(
        reinterpret_cast<__m256i*>(p),
        _mm512_maskz_cvtps_ph(0xffff, bits_as<__m512>(v), _MM_FROUND_TO_NEAREST_INT));
  }
};
#endif

}  // namespace collctl::kernels::COLL_SIMD_LEVEL
