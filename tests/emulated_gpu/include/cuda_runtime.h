// In place of CUDA's header: the language's words as the host's compiler can take them, what
// kernels call, and as much of the runtime library as the launcher and tests call. Memory is the
// host's.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "tests/emulated_gpu/machine.h"

#define __device__
#define __host__
#define __global__
#define __forceinline__ inline
#define __noinline__
#define __grid_constant__
#define __launch_bounds__(...)
// As the newest code that is compiled for.
#define __CUDA_ARCH__ 900

using std::max;  // CUDA has them without a namespace
using std::min;

namespace emulated {
struct Index {
  unsigned x = 1, y = 1, z = 1;
};
}  // namespace emulated

// The indices of the thread that goes on.
inline emulated::Index threadIdx, blockIdx, blockDim, gridDim;

// Copies from and to memory of the caller's want it aligned, whatever this host's instructions do.
struct alignas(16) uint4 {
  unsigned x, y, z, w;
  uint4() = default;
  uint4(unsigned a, unsigned b, unsigned c, unsigned d) : x(a), y(b), z(c), w(d) {}
  uint4(const uint4& other) { take(other); }
  uint4& operator=(const uint4& other) {
    take(other);
    return *this;
  }

 private:
  void take(const uint4& other) {
    uintptr_t both = reinterpret_cast<uintptr_t>(this) | reinterpret_cast<uintptr_t>(&other);
    asm("" : "+r"(both));  // the compiler takes it for aligned
    if (both % 16 != 0) emulated::machine().forbid("16 bytes that are not aligned");
    std::memcpy(&x, &other.x, 4 * sizeof x);
  }
};
struct float2 {
  float x, y;
};
inline float2 make_float2(float x, float y) {
  return {x, y};
}

inline void __syncwarp(uint32_t mask = ~0u) {
  emulated::machine().meet(emulated::Meeting::sync, mask);
}
inline bool __any_sync(uint32_t mask, bool mine) {
  const emulated::Brought& all = emulated::machine().meet(emulated::Meeting::any, mask, mine);
  for (int i = 0; i < 32; ++i)
    if ((mask >> i & 1) != 0 && all.a[i] != 0) return true;
  return false;
}
inline bool __all_sync(uint32_t mask, bool mine) {
  const emulated::Brought& all = emulated::machine().meet(emulated::Meeting::all, mask, mine);
  for (int i = 0; i < 32; ++i)
    if ((mask >> i & 1) != 0 && all.a[i] == 0) return false;
  return true;
}
inline uint64_t __shfl_sync(uint32_t mask, uint64_t mine, int lane) {
  return emulated::machine().meet(emulated::Meeting::shuffle, mask, mine).a[lane % 32];
}
inline void __syncthreads() {
  emulated::machine().barrier(0, int(blockDim.x), true);
}
inline void __threadfence_block() {}
inline void __threadfence_system() {
  emulated::machine().fence();
}

// Threads give way nowhere else, so nothing comes between the parts of these.
template <class T>
T atomicAdd(T* p, std::type_identity_t<T> v) {
  emulated::machine().look();
  return std::exchange(*p, *p + v);
}
template <class T>
T atomicExch(T* p, std::type_identity_t<T> v) {
  emulated::machine().look();
  return std::exchange(*p, v);
}
template <class T>
T atomicOr(T* p, std::type_identity_t<T> v) {
  emulated::machine().look();
  return std::exchange(*p, *p | v);
}
template <class T>
T atomicMax(T* p, std::type_identity_t<T> v) {
  emulated::machine().look();
  return std::exchange(*p, std::max(*p, v));
}
template <class T>
T atomicMin(T* p, std::type_identity_t<T> v) {
  emulated::machine().look();
  return std::exchange(*p, std::min(*p, v));
}
template <class T>
T atomicCAS(T* p, std::type_identity_t<T> wanted, std::type_identity_t<T> v) {
  emulated::machine().look();
  return std::exchange(*p, *p == wanted ? v : *p);
}

inline float __uint_as_float(uint32_t v) {
  return __builtin_bit_cast(float, v);
}
inline uint32_t __float_as_uint(float v) {
  return __builtin_bit_cast(uint32_t, v);
}

// --- The host's side

using cudaError_t = int;
using cudaStream_t = void*;
inline constexpr int cudaSuccess = 0, cudaErrorInvalidValue = 1, cudaErrorMemoryAllocation = 2;
inline constexpr int cudaHostAllocDefault = 0, cudaHostAllocMapped = 2;
inline constexpr int cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2;
inline constexpr int cudaDevAttrMultiProcessorCount = 16;
struct cudaFuncAttributes {};
struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  explicit dim3(unsigned n) : x(n) {}
};

inline const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaSuccess ? "no error" : "refused by the emulated GPU";
}
inline cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
inline cudaError_t cudaDeviceGetAttribute(int* value, int, int) {
  *value = 132;
  return cudaSuccess;
}
template <class Kernel>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes*, Kernel) {
  return cudaSuccess;
}
template <class T>
cudaError_t cudaMalloc(T** to, size_t bytes) {
  *to = static_cast<T*>(std::aligned_alloc(256, (bytes + 511) / 256 * 256));
  if (*to == nullptr) return cudaErrorMemoryAllocation;
  emulated::machine().arrives_late(*to, bytes);
  return cudaSuccess;
}
inline cudaError_t cudaFree(void* p) {
  emulated::machine().forget_memory(p);
  std::free(p);
  return cudaSuccess;
}
template <class T>
cudaError_t cudaHostAlloc(T** to, size_t bytes, int) {
  *to = static_cast<T*>(std::aligned_alloc(256, (bytes + 511) / 256 * 256));
  return *to == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}
inline cudaError_t cudaFreeHost(void* p) {
  std::free(p);
  return cudaSuccess;
}
inline cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, int) {
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}
// A kernel that does not end is an exception: its ranks wait for ever.
inline cudaError_t cudaDeviceSynchronize() {
  if (const std::string stuck = emulated::machine().run(); !stuck.empty())
    throw std::runtime_error("the emulated GPU: " + stuck);
  return cudaSuccess;
}
inline cudaError_t cudaLaunchKernel(const void* kernel, dim3 blocks, dim3 threads, void** arguments,
                                    size_t, cudaStream_t stream) {
  return emulated::launch(kernel, int(blocks.x), int(threads.x), stream, arguments)
             ? cudaSuccess
             : cudaErrorInvalidValue;
}
