// Our declarations of the CUDA driver against its header, where that is installed.
#include "base/drivers/cuda.h"
#include "tests/catch.h"

#ifdef COLLCTL_HAVE_CUDA_HEADER
#include <cuda.h>  // only here: kernels/cuda and this comparison

using namespace collctl::base::drivers;

namespace {

template <class Ours, class Theirs>
constexpr bool same_layout = sizeof(Ours) == sizeof(Theirs) && alignof(Ours) == alignof(Theirs);

// The same function but for the names of its types: as many arguments of the same sizes.
template <class Ours, class Theirs>
struct SameCall : std::false_type {};
template <class R1, class... A1, class R2, class... A2>
requires(sizeof...(A1) == sizeof...(A2)) struct SameCall<R1 (*)(A1...), R2(A2...)>
    : std::bool_constant<((sizeof(A1) == sizeof(A2)) && ...) && sizeof(R1) == sizeof(R2)> {
};

}  // namespace

#define SAME(member, function) \
  static_assert(SameCall<decltype(Cuda::member), decltype(function)>::value, #function)

static_assert(same_layout<CudaLocation, CUmemLocation>);
static_assert(same_layout<CudaAllocation, CUmemAllocationProp>);
static_assert(same_layout<CudaAccess, CUmemAccessDesc>);
static_assert(same_layout<CudaIpcHandle, CUipcMemHandle>);
static_assert(offsetof(CudaAllocation, location) == offsetof(CUmemAllocationProp, location));
static_assert(offsetof(CudaAllocation, handle_types) ==
              offsetof(CUmemAllocationProp, requestedHandleTypes));
static_assert(offsetof(CudaAllocation, flags) == offsetof(CUmemAllocationProp, allocFlags));
static_assert(offsetof(CudaAccess, flags) == offsetof(CUmemAccessDesc, flags));
static_assert(sizeof(CudaAddress) == sizeof(CUdeviceptr));
static_assert(sizeof(CudaMemoryHandle) == sizeof(CUmemGenericAllocationHandle));

static_assert(kCudaOutOfMemory == CUDA_ERROR_OUT_OF_MEMORY);
static_assert(kCudaNoDevice == CUDA_ERROR_NO_DEVICE);
static_assert(kCudaEcc == CUDA_ERROR_ECC_UNCORRECTABLE);
static_assert(kCudaNvlink == CUDA_ERROR_NVLINK_UNCORRECTABLE);
static_assert(kCudaNotReady == CUDA_ERROR_NOT_READY);
static_assert(kCudaIllegalAddress == CUDA_ERROR_ILLEGAL_ADDRESS);
static_assert(kCudaPeerAlreadyEnabled == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
static_assert(kCudaAlreadyRegistered == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
static_assert(kCudaLaunchFailed == CUDA_ERROR_LAUNCH_FAILED);
static_assert(kCudaUnknown == CUDA_ERROR_UNKNOWN);

static_assert(kCudaMultiprocessors == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
static_assert(kCudaMajor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
static_assert(kCudaMinor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
static_assert(kCudaVirtualMemory == CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
static_assert(kCudaFdHandles == CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
static_assert(kCudaGdr == CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED);
static_assert(kCudaDmaBuf == CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED);
static_assert(kCudaNotPermitted == CUDA_ERROR_NOT_PERMITTED);
#if CUDA_VERSION >= 12030
static_assert(kCudaFabricSupported == CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED);
static_assert(kCudaFabricHandle == CU_MEM_HANDLE_TYPE_FABRIC);
#endif
static_assert(kCudaStreamNonBlocking == CU_STREAM_NON_BLOCKING);
static_assert(kCudaEventUntimed == CU_EVENT_DISABLE_TIMING);
static_assert(kCudaCaptureRelaxed == CU_STREAM_CAPTURE_MODE_RELAXED);
static_assert(kCudaHostPortable == CU_MEMHOSTALLOC_PORTABLE &&
              kCudaHostPortable == CU_MEMHOSTREGISTER_PORTABLE);
static_assert(kCudaHostMapped == CU_MEMHOSTALLOC_DEVICEMAP &&
              kCudaHostMapped == CU_MEMHOSTREGISTER_DEVICEMAP);
static_assert(kCudaPinned == CU_MEM_ALLOCATION_TYPE_PINNED);
static_assert(kCudaOnDevice == CU_MEM_LOCATION_TYPE_DEVICE);
static_assert(kCudaFdHandle == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
static_assert(kCudaReadWrite == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
static_assert(kCudaGranularityMinimum == CU_MEM_ALLOC_GRANULARITY_MINIMUM);
static_assert(kCudaIpcLazyPeer == CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);

SAME(init, cuInit);
SAME(error_name, cuGetErrorName);
SAME(error_string, cuGetErrorString);
SAME(device_count, cuDeviceGetCount);
SAME(device, cuDeviceGet);
SAME(bus_id, cuDeviceGetPCIBusId);
SAME(attribute, cuDeviceGetAttribute);
SAME(device_name, cuDeviceGetName);
SAME(device_memory, cuDeviceTotalMem);
SAME(device_by_bus_id, cuDeviceGetByPCIBusId);
SAME(can_access, cuDeviceCanAccessPeer);
SAME(retain_context, cuDevicePrimaryCtxRetain);
SAME(release_context, cuDevicePrimaryCtxRelease);
SAME(set_context, cuCtxSetCurrent);
SAME(enable_peer, cuCtxEnablePeerAccess);
SAME(memory_info, cuMemGetInfo);
SAME(allocate, cuMemAlloc);
SAME(free, cuMemFree);
SAME(host_allocate, cuMemHostAlloc);
SAME(host_free, cuMemFreeHost);
SAME(host_register, cuMemHostRegister);
SAME(host_unregister, cuMemHostUnregister);
SAME(host_address, cuMemHostGetDevicePointer);
SAME(copy, cuMemcpyAsync);
SAME(fill, cuMemsetD8Async);
SAME(stream_create, cuStreamCreate);
SAME(stream_destroy, cuStreamDestroy);
SAME(stream_query, cuStreamQuery);
SAME(stream_wait_event, cuStreamWaitEvent);
SAME(begin_capture, cuStreamBeginCapture);
SAME(end_capture, cuStreamEndCapture);
SAME(event_create, cuEventCreate);
SAME(event_destroy, cuEventDestroy);
SAME(event_record, cuEventRecord);
SAME(event_query, cuEventQuery);
SAME(event_elapsed, cuEventElapsedTime);
SAME(instantiate, cuGraphInstantiateWithFlags);
SAME(graph_launch, cuGraphLaunch);
SAME(executable_destroy, cuGraphExecDestroy);
SAME(graph_destroy, cuGraphDestroy);
SAME(ipc_export, cuIpcGetMemHandle);
SAME(ipc_open, cuIpcOpenMemHandle);
SAME(ipc_close, cuIpcCloseMemHandle);
SAME(granularity, cuMemGetAllocationGranularity);
SAME(handle_create, cuMemCreate);
SAME(handle_release, cuMemRelease);
SAME(handle_export, cuMemExportToShareableHandle);
SAME(handle_import, cuMemImportFromShareableHandle);
SAME(reserve, cuMemAddressReserve);
SAME(unreserve, cuMemAddressFree);
SAME(map, cuMemMap);
SAME(unmap, cuMemUnmap);
SAME(set_access, cuMemSetAccess);
SAME(range_handle, cuMemGetHandleForAddressRange);
static_assert(kCudaDmaBufDescriptor == CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD);
#endif

namespace cuda_header_tests {

TEST_CASE("the fake driver has every function that GPU ranks need") {
  const auto& api = collctl::base::drivers::cuda();
  CHECK(api.missing.empty());
  CHECK(api.rank_missing.empty());
  CHECK(api.has_handles());
}

}  // namespace cuda_header_tests
