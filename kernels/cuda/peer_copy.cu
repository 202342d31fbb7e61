// Measurements between GPUs. A copy keeps as many 16-byte accesses on their way as hide the latency
// of a peer's memory; a chase has one load under way, whose result says where the next one goes.
#include "kernels/cuda/peer_copy.h"

#include <cuda_runtime.h>

#include "kernels/cuda/memory.cuh"
#include "kernels/cuda/multiprocessors.cuh"
#include "kernels/cuda/overlap.cuh"

namespace collctl::kernels::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kBlocksEach = 2;  // of a multiprocessor
constexpr int kInFlight = 4;    // packs of a thread

__global__ void __launch_bounds__(kThreads)
    copy_packs(uint8_t* to, const uint8_t* from, uint64_t packs) {
  const uint64_t all = uint64_t(gridDim.x) * blockDim.x;
  uint64_t at = uint64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  for (; at + (kInFlight - 1) * all < packs; at += kInFlight * all) {
    Pack held[kInFlight];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) held[i] = load_pack(from + 16 * (at + i * all));
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) store_pack(to + 16 * (at + i * all), held[i]);
  }
  for (; at < packs; at += all) store_pack(to + 16 * at, load_pack(from + 16 * at));
}

__global__ void chase(const uint64_t* first, uint32_t steps, uint64_t* end) {
  const uint64_t* at = first;
  for (uint32_t i = 0; i < steps; ++i)
    at = reinterpret_cast<const uint64_t*>(uintptr_t(load_volatile(at)));
  *end = uint64_t(reinterpret_cast<uintptr_t>(at));
}

}  // namespace

int peer_copy(void* to, const void* from, uint64_t bytes, void* stream) {
  if (bytes == 0 || bytes % 16 != 0) return cudaErrorInvalidValue;
  const uint64_t packs = bytes / 16, wanted = (packs + kThreads - 1) / kThreads;
  const uint64_t most = uint64_t(max(1, kBlocksEach * multiprocessors()));
  auto* target = static_cast<uint8_t*>(to);
  const auto* source = static_cast<const uint8_t*>(from);
  void* arguments[] = {&target, &source, const_cast<uint64_t*>(&packs)};
  return cudaLaunchKernel(address_of(copy_packs), dim3(unsigned(min(wanted, most))), dim3(kThreads),
                          arguments, 0, static_cast<cudaStream_t>(stream));
}

int peer_chase(const void* first, uint32_t steps, uint64_t* end, void* stream) {
  if (steps == 0) return cudaErrorInvalidValue;
  const auto* at = static_cast<const uint64_t*>(first);
  void* arguments[] = {&at, &steps, &end};
  return cudaLaunchKernel(address_of(chase), dim3(1), dim3(1), arguments, 0,
                          static_cast<cudaStream_t>(stream));
}

}  // namespace collctl::kernels::cuda
