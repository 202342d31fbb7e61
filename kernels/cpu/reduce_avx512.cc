// The reduction kernels for AVX-512 (F, BW, DQ, VL). CMake compiles this file, and only it, with
// those machine flags; nothing in it runs unless the processor has them (reduce.cc asks).
#include "kernels/cpu/reduce.h"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#define COLL_SIMD_LEVEL avx512
#define COLL_SIMD_BYTES 64
#include "kernels/cpu/reduce_loops.h"

namespace collctl::kernels {
const ReduceTable* avx512_reduce_table() {
  return &avx512::kTable;
}
}  // namespace collctl::kernels
#else
namespace collctl::kernels {
const ReduceTable* avx512_reduce_table() {
  return nullptr;
}
}  // namespace collctl::kernels
#endif
