// The CUDA driver, as far as topology and GPU ranks need it: our own declarations of the public
// interface (CUDA driver API reference; a test compares them with its header where that is
// installed). Loaded once. Threads: any.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace collctl::base::drivers {

using CudaReturn = int;
using CudaAddress = unsigned long long;  // CUdeviceptr
using CudaContext = void*;
using CudaStream = void*;
using CudaEvent = void*;
using CudaGraph = void*;
using CudaExecutable = void*;                 // CUgraphExec
using CudaMemoryHandle = unsigned long long;  // CUmemGenericAllocationHandle

inline constexpr CudaReturn kCudaSuccess = 0, kCudaOutOfMemory = 2, kCudaNoDevice = 100,
                            kCudaEcc = 214, kCudaNvlink = 220, kCudaContained = 226,
                            kCudaNotReady = 600, kCudaIllegalAddress = 700,
                            kCudaPeerAlreadyEnabled = 704, kCudaAlreadyRegistered = 712,
                            kCudaLaunchFailed = 719, kCudaNotPermitted = 800, kCudaUnknown = 999;

// Attributes of a device.
inline constexpr int kCudaMultiprocessors = 16, kCudaMajor = 75, kCudaMinor = 76,
                     kCudaVirtualMemory = 102, kCudaFdHandles = 103, kCudaGdr = 116,
                     kCudaDmaBuf = 124, kCudaFabricSupported = 128;
// Flags and kinds, by the call they belong to.
inline constexpr unsigned kCudaStreamNonBlocking = 1;
inline constexpr unsigned kCudaEventUntimed = 2;
inline constexpr int kCudaCaptureRelaxed = 2;
inline constexpr unsigned kCudaHostPortable = 1, kCudaHostMapped = 2;
inline constexpr int kCudaPinned = 1, kCudaOnDevice = 1, kCudaFdHandle = 1, kCudaFabricHandle = 8,
                     kCudaReadWrite = 3, kCudaGranularityMinimum = 0;
inline constexpr unsigned kCudaIpcLazyPeer = 1;
inline constexpr int kCudaDmaBufDescriptor = 1;  // CUmemRangeHandleType

struct CudaLocation {  // CUmemLocation
  int type = kCudaOnDevice;
  int id = 0;
};
struct CudaAllocation {  // CUmemAllocationProp
  int type = kCudaPinned;
  int handle_types = 0;
  CudaLocation location;
  void* win32 = nullptr;
  struct {
    unsigned char compression = 0, gdr_capable = 0;
    unsigned short usage = 0;
    unsigned char reserved[4] = {};
  } flags;
};
struct CudaAccess {  // CUmemAccessDesc
  CudaLocation location;
  int flags = kCudaReadWrite;
};
struct CudaIpcHandle {  // CUipcMemHandle
  char reserved[64];
};
static_assert(sizeof(CudaLocation) == 8 && sizeof(CudaAllocation) == 32 &&
              sizeof(CudaAccess) == 12 && sizeof(CudaIpcHandle) == 64);
static_assert(offsetof(CudaAllocation, location) == 8 && offsetof(CudaAllocation, win32) == 16 &&
              offsetof(CudaAllocation, flags) == 24 && offsetof(CudaAccess, flags) == 8);

struct Cuda {
  // Functions for the topology: facts of the devices, without a context.
  CudaReturn (*init)(unsigned) = nullptr;
  CudaReturn (*error_name)(CudaReturn, const char**) = nullptr;
  CudaReturn (*device_count)(int*) = nullptr;
  CudaReturn (*device)(int*, int) = nullptr;
  CudaReturn (*bus_id)(char*, int, int) = nullptr;
  // 16 bytes; those of the MIG instance where the device is one. Null in old drivers.
  CudaReturn (*uuid)(void*, int) = nullptr;
  CudaReturn (*attribute)(int*, int, int) = nullptr;
  std::string missing;  // why the functions above cannot be used; empty when they can

  // Functions that a GPU rank needs as well; usable when `rank_missing` is empty.
  CudaReturn (*error_string)(CudaReturn, const char**) = nullptr;
  CudaReturn (*device_name)(char*, int, int) = nullptr;
  CudaReturn (*device_memory)(size_t*, int) = nullptr;
  CudaReturn (*device_by_bus_id)(int*, const char*) = nullptr;
  CudaReturn (*can_access)(int*, int, int) = nullptr;
  CudaReturn (*retain_context)(CudaContext*, int) = nullptr;
  CudaReturn (*release_context)(int) = nullptr;
  CudaReturn (*set_context)(CudaContext) = nullptr;
  CudaReturn (*enable_peer)(CudaContext, unsigned) = nullptr;
  CudaReturn (*memory_info)(size_t*, size_t*) = nullptr;
  CudaReturn (*allocate)(CudaAddress*, size_t) = nullptr;
  CudaReturn (*free)(CudaAddress) = nullptr;
  CudaReturn (*host_allocate)(void**, size_t, unsigned) = nullptr;
  CudaReturn (*host_free)(void*) = nullptr;
  CudaReturn (*host_register)(void*, size_t, unsigned) = nullptr;
  CudaReturn (*host_unregister)(void*) = nullptr;
  CudaReturn (*host_address)(CudaAddress*, void*, unsigned) = nullptr;
  CudaReturn (*copy)(CudaAddress, CudaAddress, size_t, CudaStream) = nullptr;
  CudaReturn (*fill)(CudaAddress, unsigned char, size_t, CudaStream) = nullptr;
  CudaReturn (*stream_create)(CudaStream*, unsigned) = nullptr;
  CudaReturn (*stream_destroy)(CudaStream) = nullptr;
  CudaReturn (*stream_query)(CudaStream) = nullptr;
  CudaReturn (*stream_wait_event)(CudaStream, CudaEvent, unsigned) = nullptr;
  CudaReturn (*begin_capture)(CudaStream, int) = nullptr;
  CudaReturn (*end_capture)(CudaStream, CudaGraph*) = nullptr;
  CudaReturn (*event_create)(CudaEvent*, unsigned) = nullptr;
  CudaReturn (*event_destroy)(CudaEvent) = nullptr;
  CudaReturn (*event_record)(CudaEvent, CudaStream) = nullptr;
  CudaReturn (*event_query)(CudaEvent) = nullptr;
  CudaReturn (*event_elapsed)(float*, CudaEvent, CudaEvent) = nullptr;
  CudaReturn (*instantiate)(CudaExecutable*, CudaGraph, unsigned long long) = nullptr;
  CudaReturn (*graph_launch)(CudaExecutable, CudaStream) = nullptr;
  CudaReturn (*executable_destroy)(CudaExecutable) = nullptr;
  CudaReturn (*graph_destroy)(CudaGraph) = nullptr;
  CudaReturn (*ipc_export)(CudaIpcHandle*, CudaAddress) = nullptr;
  CudaReturn (*ipc_open)(CudaAddress*, CudaIpcHandle, unsigned) = nullptr;
  CudaReturn (*ipc_close)(CudaAddress) = nullptr;
  std::string rank_missing;

  // Memory with handles (CUDA 10.2 and later): all null when the driver is too old.
  CudaReturn (*granularity)(size_t*, const CudaAllocation*, int) = nullptr;
  CudaReturn (*handle_create)(CudaMemoryHandle*, size_t, const CudaAllocation*,
                              unsigned long long) = nullptr;
  CudaReturn (*handle_release)(CudaMemoryHandle) = nullptr;
  CudaReturn (*handle_export)(void*, CudaMemoryHandle, int, unsigned long long) = nullptr;
  CudaReturn (*handle_import)(CudaMemoryHandle*, void*, int) = nullptr;
  CudaReturn (*reserve)(CudaAddress*, size_t, size_t, CudaAddress, unsigned long long) = nullptr;
  CudaReturn (*unreserve)(CudaAddress, size_t) = nullptr;
  CudaReturn (*map)(CudaAddress, size_t, size_t, CudaMemoryHandle, unsigned long long) = nullptr;
  CudaReturn (*unmap)(CudaAddress, size_t) = nullptr;
  CudaReturn (*set_access)(CudaAddress, size_t, const CudaAccess*, size_t) = nullptr;
  // A descriptor by which other devices reach memory (CUDA 11.7); null in older drivers.
  CudaReturn (*range_handle)(void*, CudaAddress, size_t, int kind, unsigned long long) = nullptr;
  bool has_handles() const { return set_access != nullptr; }
};
const Cuda& cuda();

}  // namespace collctl::base::drivers
