// The kernel of protocol simple: all algorithms, all types and operations.
#include "kernels/cuda/verbs/run.cuh"
#include "kernels/cuda/verbs/simple.cuh"

namespace collctl::kernels::cuda {

WorksKernel simple_kernel() {
  return works_kernel_of<SimpleSlices>();
}

}  // namespace collctl::kernels::cuda
