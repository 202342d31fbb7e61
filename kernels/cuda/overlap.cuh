// Launches that overlap: the next kernel of the stream is placed on the device while the one
// before runs, which hides the time of a launch (0.6 to 1 us).
#pragma once
#include <cuda_runtime.h>

namespace collctl::kernels::cuda {

// First in a kernel, all its threads: lets the next one start, and waits until the one before is
// over and what it wrote is visible. Without the attribute at the launch both do nothing.
// `meanwhile` touches no memory that kernels write.
template <class Meanwhile>
__device__ __forceinline__ void begin_launch(Meanwhile meanwhile) {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
  meanwhile();
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
__device__ __forceinline__ void begin_launch() {
  begin_launch([] {});
}

// Host. The address that stands for a kernel where it is launched.
template <class... Arguments>
const void* address_of(void (*kernel)(Arguments...)) {
  return reinterpret_cast<const void*>(kernel);
}
// Whether two blocks may be on one multiprocessor, of one launch or of two that overlap. Alone they
// lie evenly: of the launch that follows some would find the few multiprocessors that are free, and
// two of them there take twice as long as the others.
enum class Places : bool { any, alone };
// Host. Puts a kernel that begins with begin_launch() on a stream of the current device;
// `arguments` point at the kernel's. Any thread. Returns the device's error.
cudaError_t launch_overlapping(const void* kernel, int blocks, int threads, void* stream,
                               void** arguments, Places places = Places::any);

}  // namespace collctl::kernels::cuda
