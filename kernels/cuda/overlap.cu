// How kernels are put on a stream: by the driver's own function with what it needs to know of a
// kernel kept, since the runtime library's would look all of it up again (PERFORMANCE.md).
#include "kernels/cuda/overlap.cuh"

#include <cuda.h>

namespace collctl::kernels::cuda {
namespace {

using LaunchEx = decltype(&cuLaunchKernelEx);

LaunchEx driver_launch() {
  static const LaunchEx found = [] {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult result;
    const cudaError_t rc = cudaGetDriverEntryPointByVersion("cuLaunchKernelEx", &function, 11080,
                                                            cudaEnableDefault, &result);
    return rc == cudaSuccess ? reinterpret_cast<LaunchEx>(function) : nullptr;
  }();
  return found;
}

struct Known {
  int device = -1;
  const void* kernel = nullptr;
  cudaFunction_t function = nullptr;
  bool overlaps = false;
  int alone_bytes = -1;  // of shared memory, so that no second block has room; -1: not asked yet
};

// Older code than 9.0 does not wait for the launch before, whatever the device knows.
cudaError_t look_up(int device, const void* kernel, Known& known) {
  cudaFuncAttributes code;
  if (const cudaError_t rc = cudaFuncGetAttributes(&code, kernel); rc != cudaSuccess) return rc;
  cudaFunction_t function = nullptr;
  if (const cudaError_t rc = cudaGetFuncBySymbol(&function, kernel); rc != cudaSuccess) return rc;
  known = {device, kernel, function, code.ptxVersion >= 90, -1};
  return cudaSuccess;
}

// More than half of a multiprocessor's shared memory, with what a block has anyway.
cudaError_t find_alone_bytes(Known& known) {
  cudaFuncAttributes code;
  if (const cudaError_t rc = cudaFuncGetAttributes(&code, known.kernel); rc != cudaSuccess)
    return rc;
  int all = 0, most = 0;
  cudaError_t rc =
      cudaDeviceGetAttribute(&all, cudaDevAttrMaxSharedMemoryPerMultiprocessor, known.device);
  if (rc == cudaSuccess)
    rc = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, known.device);
  if (rc != cudaSuccess) return rc;
  const int fixed = int(code.sharedSizeBytes);
  const int bytes = max(0, min(all / 2 + 1024, most) - fixed) / 1024 * 1024;
  rc = cudaFuncSetAttribute(known.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  if (rc == cudaSuccess) known.alone_bytes = bytes;
  return rc;
}

// A thread's kernels, each in the place that its address says.
Known& place_of(const void* kernel) {
  constexpr size_t kPlaces = 64;
  static thread_local Known places[kPlaces];
  const auto address = reinterpret_cast<uintptr_t>(kernel);
  return places[(address / 16 ^ address / 1024) % kPlaces];
}

}  // namespace

cudaError_t launch_overlapping(const void* kernel, int blocks, int threads, void* stream,
                               void** arguments, Places places) {
  int device = 0;
  if (const cudaError_t rc = cudaGetDevice(&device); rc != cudaSuccess) return rc;
  Known& known = place_of(kernel);
  if (known.kernel != kernel || known.device != device)
    if (const cudaError_t rc = look_up(device, kernel, known); rc != cudaSuccess) return rc;
  if (places == Places::alone && known.alone_bytes < 0)
    if (const cudaError_t rc = find_alone_bytes(known); rc != cudaSuccess) return rc;
  const LaunchEx launch = driver_launch();
  if (launch == nullptr) return cudaErrorNotSupported;
  CUlaunchConfig config{};
  config.gridDimX = unsigned(blocks);
  config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = unsigned(threads);
  config.blockDimY = config.blockDimZ = 1;
  config.sharedMemBytes = places == Places::alone ? unsigned(known.alone_bytes) : 0;
  config.hStream = static_cast<CUstream>(stream);
  CUlaunchAttribute attribute{};
  attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
  attribute.value.programmaticStreamSerializationAllowed = 1;
  config.attrs = &attribute;
  config.numAttrs = known.overlaps ? 1 : 0;
  // The values of the driver's errors are those of the runtime library's.
  return cudaError_t(launch(&config, known.function, arguments, nullptr));
}

}  // namespace collctl::kernels::cuda
