// The kernel of protocol ll128: all algorithms, all types and operations.
#include "kernels/cuda/verbs/ll128.cuh"
#include "kernels/cuda/verbs/run.cuh"

namespace collctl::kernels::cuda {

WorksKernel ll128_kernel() {
  return works_kernel_of<LineSlices<Ll128Lines>>();
}

}  // namespace collctl::kernels::cuda
