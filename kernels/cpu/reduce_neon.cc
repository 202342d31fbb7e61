// The reduction kernels for NEON, which every 64-bit Arm processor has.
#include "kernels/cpu/reduce.h"

#if defined(__ARM_NEON)
#define COLL_SIMD_LEVEL neon
#define COLL_SIMD_BYTES 16
#include "kernels/cpu/reduce_loops.h"

namespace collctl::kernels {
const ReduceTable* neon_reduce_table() {
  return &neon::kTable;
}
}  // namespace collctl::kernels
#else
namespace collctl::kernels {
const ReduceTable* neon_reduce_table() {
  return nullptr;
}
}  // namespace collctl::kernels
#endif
