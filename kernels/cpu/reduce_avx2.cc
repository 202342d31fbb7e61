// The reduction kernels for AVX2 and F16C. CMake compiles this file, and only it, with those
// machine flags; nothing in it runs unless the processor has them (reduce.cc asks).
#include "kernels/cpu/reduce.h"

#if defined(__AVX2__) && defined(__F16C__)
#define COLL_SIMD_LEVEL avx2
#define COLL_SIMD_BYTES 32
#include "kernels/cpu/reduce_loops.h"

namespace collctl::kernels {
const ReduceTable* avx2_reduce_table() {
  return &avx2::kTable;
}
}  // namespace collctl::kernels
#else
namespace collctl::kernels {
const ReduceTable* avx2_reduce_table() {
  return nullptr;
}
}  // namespace collctl::kernels
#endif
