// Launches that overlap: the next kernel of the stream takes its place on the device while the one
// before runs, which hides the time of a launch (0.6 to 1 us).
#pragma once
#include <cuda_runtime.h>

namespace collctl::kernels::cuda {

// First in a kernel, all its threads: lets the next one come, and waits until the one before is
// over and what it wrote is there. Without the attribute at the launch both are nothing.
__device__ __forceinline__ void begin_launch() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Host. Of the current device and the code it takes: older code than 9.0 does not wait, whatever
// the device knows. Asked once a thread and device.
inline bool overlaps_launches(const void* kernel) {
  thread_local int known_device = -1;
  thread_local bool known = false;
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return false;
  if (device == known_device) return known;
  cudaFuncAttributes code;
  if (cudaFuncGetAttributes(&code, kernel) != cudaSuccess) return false;
  known_device = device;
  known = code.ptxVersion >= 90;
  return known;
}

// Of a kernel that begins with begin_launch().
inline cudaError_t launch_overlapping(const void* kernel, int blocks, int threads, void* stream,
                                      void** arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(unsigned(blocks));
  config.blockDim = dim3(unsigned(threads));
  config.stream = static_cast<cudaStream_t>(stream);
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &attribute;
  config.numAttrs = overlaps_launches(kernel) ? 1 : 0;
  return cudaLaunchKernelExC(&config, kernel, arguments);
}

}  // namespace collctl::kernels::cuda
