// The reduction loops over the lanes of reduce_lanes.h, and the table of one SIMD level. Included
// by one source file per level, with COLL_SIMD_LEVEL (namespace) and COLL_SIMD_BYTES (vector width,
// 0 for plain C++) defined.
#pragma once
#include "kernels/cpu/reduce.h"
#include "kernels/cpu/reduce_lanes.h"

namespace collctl::kernels::COLL_SIMD_LEVEL {

template <class T>
inline constexpr bool kIsFloat = T(0.5) != T(0);
template <class T>
inline constexpr bool kIsSigned = T(-1) < T(0);
template <bool kFirst, class A, class B>
struct ChooseLanes {
  using Type = A;
};
template <class A, class B>
struct ChooseLanes<false, A, B> {
  using Type = B;
};

enum class Op { sum, prod, min, max };

template <Op kOp, class T, class V>
inline V combine(const V& a, const V& b) {
  if constexpr (kOp == Op::sum) {
    return V(a + b);
  } else if constexpr (kOp == Op::prod) {
    // (Integers narrower than int would be multiplied as signed ones.)
    if constexpr (sizeof(V) < sizeof(unsigned))
      return V(1u * a * b);
    else
      return V(a * b);
  } else if constexpr (kIsFloat<T>) {  // a NaN in `a` gives way; one in `b` never compares
    if constexpr (kOp == Op::min)
      return b < a ? b : (a == a ? a : b);
    else
      return a < b ? b : (a == a ? a : b);
  } else {
    if constexpr (kOp == Op::min)
      return b < a ? b : a;
    else
      return a < b ? b : a;
  }
}

// T is the type the value means (signed where the wrapping computation is not). Integers come one
// at a time: there is no vector division.
template <class T, class Lanes>
inline typename Lanes::Value divide(const typename Lanes::Value& v, uint32_t divisor) {
  using Value = typename Lanes::Value;
  if constexpr (kIsFloat<T>)
    return v / static_cast<T>(divisor);
  else if constexpr (sizeof(T) <= 4 && kIsSigned<T>)
    return Value(int64_t(double(T(v)) / double(divisor)));  // exact: 32 bits fit a double's 53
  else if constexpr (kIsSigned<T>)
    return Value(T(v) / T(divisor));
  else
    return Value(v / divisor);
}

struct Arrays {
  const uint8_t* source[kMaxReduceSources];
  uint8_t* destination[kMaxReduceDestinations];
  int source_count, destination_count;
  uint32_t divisor;
};

// kSources and kDestinations fix the counts at compile time; 0 takes them from `arrays`.
// kUnroll groups of lanes at byte offset `at`: all sources are read before anything is written.
template <class T, class Lanes, Op kOp, int kSources, int kDestinations, bool kDivide, int kUnroll>
inline void step(const Arrays& arrays, uint64_t at) {
  constexpr uint64_t kBytes = uint64_t(Lanes::kLanes) * Lanes::kElementBytes;
  const int sources = kSources > 0 ? kSources : arrays.source_count;
  const int destinations = kDestinations > 0 ? kDestinations : arrays.destination_count;
  // Unrolled early, so that the values live in registers.
  typename Lanes::Value value[kUnroll];
#pragma GCC unroll 4
  for (int u = 0; u < kUnroll; ++u) value[u] = Lanes::load(arrays.source[0] + at + u * kBytes);
#pragma GCC unroll 2
  for (int s = 1; s < sources; ++s) {
#pragma GCC unroll 4
    for (int u = 0; u < kUnroll; ++u)
      value[u] = combine<kOp, T>(value[u], Lanes::load(arrays.source[s] + at + u * kBytes));
  }
  if constexpr (kDivide) {
#pragma GCC unroll 4
    for (int u = 0; u < kUnroll; ++u) value[u] = divide<T, Lanes>(value[u], arrays.divisor);
  }
#pragma GCC unroll 2
  for (int d = 0; d < destinations; ++d) {
#pragma GCC unroll 4
    for (int u = 0; u < kUnroll; ++u)
      Lanes::store(arrays.destination[d] + at + u * kBytes, value[u]);
  }
}

template <class T, class Wide, class One, Op kOp, int kSources, int kDestinations, bool kDivide>
void loop(const Arrays& arrays, uint64_t n) {
  constexpr uint64_t kElement = One::kElementBytes;
  constexpr uint64_t kGroup = uint64_t(Wide::kLanes) * kElement;
  constexpr int kUnroll = Wide::kLanes == 1                            ? 1
                          : sizeof(typename Wide::Element) == kElement ? 4
                                                                       : 2;
  uint64_t at = 0;
  const uint64_t end = n * kElement;
  if constexpr (Wide::kLanes > 1) {
    // Long arrays: reach a destination address that a vector store does not split over two lines.
    if (end >= 64 * kGroup) {
      const uint64_t past = reinterpret_cast<uintptr_t>(arrays.destination[0]) % kGroup;
      if (past != 0 && past % kElement == 0)
        for (; at < kGroup - past; at += kElement)
          step<T, One, kOp, kSources, kDestinations, kDivide, 1>(arrays, at);
    }
    for (; at + kUnroll * kGroup <= end; at += kUnroll * kGroup)
      step<T, Wide, kOp, kSources, kDestinations, kDivide, kUnroll>(arrays, at);
    for (; at + kGroup <= end; at += kGroup)
      step<T, Wide, kOp, kSources, kDestinations, kDivide, 1>(arrays, at);
  }
  for (; at < end; at += kElement)
    step<T, One, kOp, kSources, kDestinations, kDivide, 1>(arrays, at);
}

template <class T, class Wide, class One, Op kOp>
void reduce(const void* const* sources, int source_count, void* const* destinations,
            int destination_count, uint64_t n, uint32_t divisor) {
  // The everyday work of rings and pairs of ranks gets loops of its own; elsewhere the counts cost
  // little beside the work.
  constexpr bool kHot = kOp == Op::sum && sizeof(typename Wide::Element) == Wide::kElementBytes;
  Arrays arrays;
  if (kHot && source_count == 2 && destination_count == 1 && divisor <= 1) {
    arrays.source[0] = static_cast<const uint8_t*>(sources[0]);
    arrays.source[1] = static_cast<const uint8_t*>(sources[1]);
    arrays.destination[0] = static_cast<uint8_t*>(destinations[0]);
    loop<T, Wide, One, kOp, kHot ? 2 : 0, kHot ? 1 : 0, false>(arrays, n);
    return;
  }
  for (int i = 0; i < source_count; ++i) arrays.source[i] = static_cast<const uint8_t*>(sources[i]);
  for (int i = 0; i < destination_count; ++i)
    arrays.destination[i] = static_cast<uint8_t*>(destinations[i]);
  arrays.source_count = source_count;
  arrays.destination_count = destination_count;
  arrays.divisor = divisor;
  if constexpr (kOp == Op::sum) {
    using Divided = ChooseLanes<kIsFloat<T>, Wide, One>;
    if (divisor > 1) return loop<T, typename Divided::Type, One, kOp, 0, 0, true>(arrays, n);
  }
  if (kHot && source_count == 2 && destination_count == 2)
    loop<T, Wide, One, kOp, kHot ? 2 : 0, kHot ? 2 : 0, false>(arrays, n);
  else
    loop<T, Wide, One, kOp, 0, 0, false>(arrays, n);
}

#if COLL_SIMD_BYTES > 0
template <class T>
using WidePlain = PlainLanes<T, COLL_SIMD_BYTES / int(sizeof(T))>;
template <class F>
using WideNarrow = NarrowLanes<F, COLL_SIMD_BYTES / 4>;
#else
template <class T>
using WidePlain = PlainLanes<T, 1>;
template <class F>
using WideNarrow = NarrowLanes<F, 1>;
#endif

// A row of the table: computed in T, sums and products of integers in W, where they wrap.
template <class T, class SumLanes, class SumOne, class Lanes, class One>
constexpr void fill_row(ReduceFn* row) {
  row[0] = reduce<T, SumLanes, SumOne, Op::sum>;
  row[1] = reduce<T, SumLanes, SumOne, Op::prod>;
  row[2] = reduce<T, Lanes, One, Op::min>;
  row[3] = reduce<T, Lanes, One, Op::max>;
}
template <DataType kType>
constexpr void fill(ReduceTable& table) {
  using T = StorageOf<kType>;
  using W = StorageOf<unsigned_of(kType)>;
  static_assert(!is_signed_integer(kType) || unsigned_of(kType) != kType,
                "a signed integer stands beside its unsigned one, in which it wraps");
  ReduceFn* const row = table.fn[int(kType)];
  if constexpr (number_kind(kType) == NumberKind::narrow) {
    using F = NarrowFloat<kType>;
    fill_row<float, WideNarrow<F>, NarrowLanes<F, 1>, WideNarrow<F>, NarrowLanes<F, 1>>(row);
  } else {
    fill_row<T, WidePlain<W>, PlainLanes<W, 1>, WidePlain<T>, PlainLanes<T, 1>>(row);
  }
}
constexpr ReduceTable make_table() {
  ReduceTable table{};
#define COLL_DATA_TYPE(id, ...) fill<DataType::id>(table);
#include "kernels/contract/data_types.inc"
  return table;
}
inline constexpr ReduceTable kTable = make_table();

}  // namespace collctl::kernels::COLL_SIMD_LEVEL
