// Element arithmetic of the CPU: reduction kernels by type, operation and SIMD level, and the
// conversions of the narrow floats. Called by the CPU backend (function pointers, looked up once a
// work), by reduce_arrays() and by data checks. Threads: any; pure but for the forced level.
//
// Number meaning, equal bit for bit at every level (only the payload of a NaN may differ): integer
// sums and products wrap at the type's width; narrow floats are widened to float32, accumulated
// there and rounded once to nearest even (float8 saturates to finite, float16 and bfloat16 round to
// infinity); min and max ignore a NaN unless all are NaN; a divisor divides the accumulated value,
// integers (after wrapping) truncating toward zero. One source without divisor is copied as it is.
#pragma once
#include <cstdint>

#include "kernels/contract/types.h"
#include "kernels/contract/window.h"

namespace collctl::kernels {

// reduce_arrays() for one type and operation; see kernels/cpu/launch.h for the arguments.
using ReduceFn = void (*)(const void* const* sources, int source_count, void* const* destinations,
                          int destination_count, uint64_t n, uint32_t divisor);

// One more than a window has ranks: an injected fault may double one.
inline constexpr int kMaxReduceSources = kMaxWindowRanks + 1;
// A sum between users' windows goes to every rank.
inline constexpr int kMaxReduceDestinations = kMaxWindowRanks;

// The kernel of the level in use. avg is sum; the divisor does the rest.
ReduceFn reduce_function(DataType type, RedOp op);

// Copies `bytes` to each destination, reading the source from memory once. A destination may be the
// source itself (nothing to do), not otherwise overlap it.
void copy_to_all(const void* source, void* const* destinations, int destination_count,
                 uint64_t bytes);

// Value of the raw bits of a float16, bfloat16, float8e4m3 or float8e5m2, and the bits nearest to a
// value (a NaN gives a quiet NaN of the same sign).
float widen_to_float32(DataType type, uint32_t bits);
uint32_t narrow_from_float32(DataType type, float value);

// One level's kernels, [type][sum, prod, min, max]. The accessors of levels that this binary was
// built without return null.
struct ReduceTable {
  ReduceFn fn[kDataTypeCount][4];
};
const ReduceTable* scalar_reduce_table();
const ReduceTable* avx2_reduce_table();
const ReduceTable* avx512_reduce_table();
const ReduceTable* neon_reduce_table();

}  // namespace collctl::kernels
