// Arithmetic of the window kernels on words of 8 bytes, whatever elements they hold. The sums that
// matter most have a kind of their own; everything else is one generic kind that looks at type and
// operation at run time: memory, not arithmetic, bounds these kernels, and one kind keeps them few.
// Narrow floats are accumulated in float32 over all ranks and rounded once (kernels/cpu/reduce.h).
#pragma once
#include "kernels/cuda/reduce.cuh"

namespace collctl::kernels::cuda {

enum class WordKind : uint8_t { copy, sum_float32, sum_float16, sum_bfloat16, generic };

struct WordOps {  // what the generic kind needs to know
  DataType type;
  RedOp op;
  int nranks;
};

template <WordKind kKind>
struct WordSum;

template <>
struct WordSum<WordKind::copy> {
  uint64_t value;
  __device__ void first(uint64_t w, const WordOps&) { value = w; }
  __device__ void add(uint64_t w, const WordOps&) { value = w; }
  __device__ uint64_t result(const WordOps&) const { return value; }
};

template <>
struct WordSum<WordKind::sum_float32> {
  float low, high;
  __device__ void first(uint64_t w, const WordOps&) {
    low = __uint_as_float(uint32_t(w));
    high = __uint_as_float(uint32_t(w >> 32));
  }
  __device__ void add(uint64_t w, const WordOps&) {
    low += __uint_as_float(uint32_t(w));
    high += __uint_as_float(uint32_t(w >> 32));
  }
  __device__ uint64_t result(const WordOps&) const {
    return uint64_t(__float_as_uint(high)) << 32 | __float_as_uint(low);
  }
};

template <DataType kType>
struct HalfSum {
  using E = Element<kType>;
  float part[4];
  __device__ void first(uint64_t w, const WordOps&) {
#pragma unroll
    for (int i = 0; i < 4; ++i) part[i] = E::widen(uint16_t(w >> 16 * i));
  }
  __device__ void add(uint64_t w, const WordOps&) {
#pragma unroll
    for (int i = 0; i < 4; ++i) part[i] += E::widen(uint16_t(w >> 16 * i));
  }
  __device__ uint64_t result(const WordOps&) const {
    uint64_t w = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) w |= uint64_t(E::narrow(part[i])) << 16 * i;
    return w;
  }
};
template <>
struct WordSum<WordKind::sum_float16> : HalfSum<DataType::float16> {};
template <>
struct WordSum<WordKind::sum_bfloat16> : HalfSum<DataType::bfloat16> {};

namespace word {

// Calls body.template operator()<kType>() for the type at hand; the host refuses what the device
// has no arithmetic for.
template <class Body>
__device__ __forceinline__ void with_type(DataType type, Body body) {
  switch (type) {
#define COLL_DATA_TYPE(id, ...)                           \
  case DataType::id:                                      \
    if constexpr (!is_float8(DataType::id) || kHasFloat8) \
      body.template operator()<DataType::id>();           \
    return;
#include "kernels/contract/data_types.inc"
  }
}
template <class A>
__device__ __forceinline__ A apply(RedOp op, A a, A b) {
  switch (op) {
    case RedOp::prod:
      return Operator<RedOp::prod>::apply(a, b);
    case RedOp::min:
      return Operator<RedOp::min>::apply(a, b);
    case RedOp::max:
      return Operator<RedOp::max>::apply(a, b);
    default:
      return Operator<RedOp::sum>::apply(a, b);
  }
}

template <DataType kType>
inline constexpr bool kWidened =
    !std::is_same_v<typename Element<kType>::Storage, typename Element<kType>::Accumulator>;

template <DataType kType>
union Elements {
  uint64_t word;
  typename Element<kType>::Storage one[8 / sizeof(typename Element<kType>::Storage)];
};

}  // namespace word

template <>
struct WordSum<WordKind::generic> {
  uint64_t value;  // of types that accumulate as they are
  float wide[8];   // of narrow floats

  __device__ __noinline__ void first(uint64_t w, const WordOps& ops) {
    value = w;
    word::with_type(ops.type, [&]<DataType kType>() {
      if constexpr (word::kWidened<kType>) {
        word::Elements<kType> in{w};
        constexpr int kCount = sizeof in.one / sizeof in.one[0];
        for (int i = 0; i < kCount; ++i) wide[i] = Element<kType>::widen(in.one[i]);
      }
    });
  }
  __device__ __noinline__ void add(uint64_t w, const WordOps& ops) {
    word::with_type(ops.type, [&]<DataType kType>() {
      word::Elements<kType> in{w};
      constexpr int kCount = sizeof in.one / sizeof in.one[0];
      if constexpr (word::kWidened<kType>) {
        for (int i = 0; i < kCount; ++i)
          wide[i] = word::apply(ops.op, wide[i], Element<kType>::widen(in.one[i]));
      } else {
        word::Elements<kType> sum{value};
        for (int i = 0; i < kCount; ++i) sum.one[i] = word::apply(ops.op, sum.one[i], in.one[i]);
        value = sum.word;
      }
    });
  }
  __device__ __noinline__ uint64_t result(const WordOps& ops) const {
    const bool divides = ops.op == RedOp::avg;
    uint64_t out = value;
    word::with_type(ops.type, [&]<DataType kType>() {
      word::Elements<kType> sum{value};
      constexpr int kCount = sizeof sum.one / sizeof sum.one[0];
      for (int i = 0; i < kCount; ++i) {
        typename Element<kType>::Accumulator a;
        if constexpr (word::kWidened<kType>)
          a = wide[i];
        else
          a = sum.one[i];
        if (divides) a = Operator<RedOp::avg>::finish(a, ops.nranks);
        sum.one[i] = Element<kType>::narrow(a);
      }
      out = sum.word;
    });
    return out;
  }
};

}  // namespace collctl::kernels::cuda
