// Host. The driver loads a kernel when it is first launched, and may then wait for what runs on the
// device, which may be waiting for that very launch: so all are loaded before.
#pragma once
#include <cuda_runtime.h>

namespace collctl::kernels::cuda {

// Onto the current device. cudaError_t.
template <class Kernel>
int prepare_kernel(Kernel kernel) {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, kernel);
}

}  // namespace collctl::kernels::cuda
