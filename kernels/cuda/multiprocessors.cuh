// Host. How many blocks of a launch that fill a multiprocessor each run at the same time.
#pragma once
#include <cuda_runtime.h>

namespace collctl::kernels::cuda {

// The current device's count, asked once a thread and device; 0: the driver does not report it.
inline int multiprocessors() {
  thread_local int known_device = -1, known = 0;
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return 0;
  if (device == known_device) return known;
  if (cudaDeviceGetAttribute(&known, cudaDevAttrMultiProcessorCount, device) != cudaSuccess)
    return 0;
  known_device = device;
  return known;
}

}  // namespace collctl::kernels::cuda
