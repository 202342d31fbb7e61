// The kernel of protocol ll: all algorithms, all types and operations.
#include "kernels/cuda/verbs/ll.cuh"
#include "kernels/cuda/verbs/run.cuh"

namespace collctl::kernels::cuda {

WorksKernel ll_kernel() {
  return works_kernel_of<LineSlices<LlLines>>();
}

}  // namespace collctl::kernels::cuda
