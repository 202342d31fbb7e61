// The torn-store test: in round r the writer stores r into all 16 words of every line, as LL128
// does (eight lanes a line, one store), without waiting for anybody. The reader does what LL128
// does as well: it loads a line until the flag, its last word, has moved, and loads it once more; a
// word that is older than the flag shows that a line does not arrive as a unit there. The lines
// start as zeros. Both end with the last round, the reader also by the abort word or its deadline.
#include "kernels/cuda/torn_store.h"

#include <cuda_runtime.h>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/memory.cuh"
#include "kernels/cuda/overlap.cuh"
#include "kernels/slices.h"

namespace collctl::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr uint32_t kLanes = 8;
constexpr uint32_t kLinesOfBlock = kThreads / kLanes;
constexpr uint32_t kMostBlocks = 32;
constexpr int kPollsBetweenLooks = 256;

__global__ void __launch_bounds__(kThreads)
    write_lines(uint8_t* lines, uint32_t line_count, uint32_t rounds) {
  const uint32_t first = blockIdx.x * kLinesOfBlock + threadIdx.x / kLanes;
  const uint32_t part = threadIdx.x % kLanes * 16;
  for (uint64_t round = 1; round <= rounds; ++round)
    for (uint32_t l = first; l < line_count; l += gridDim.x * kLinesOfBlock)
      store_pack_volatile(lines + uint64_t(l) * kLl128LineBytes + part, {{round, round}});
}

// Lines `first`, first + step, ...: one after the other, round after round of each as it is seen.
__global__ void __launch_bounds__(kThreads)
    read_lines(const uint8_t* lines, uint32_t line_count, uint32_t rounds, uint32_t* torn,
               const uint32_t* abort_word, int64_t timeout_ns) {
  const uint32_t first = blockIdx.x * kLinesOfBlock + threadIdx.x / kLanes;
  const uint32_t lane = threadIdx.x % kLanes;
  const uint32_t group = 0xffu << (threadIdx.x % 32 / kLanes * kLanes);  // the lanes of my line
  const int flag_lane = int(threadIdx.x % 32 / kLanes * kLanes + kLanes - 1);
  int64_t start = clock_ns();
  for (uint32_t l = first; l < line_count; l += gridDim.x * kLinesOfBlock) {
    const uint8_t* mine = lines + uint64_t(l) * kLl128LineBytes + lane * 16;
    uint64_t seen = 0;
    for (int polls = 1; seen < rounds; ++polls) {
      const uint64_t flag = __shfl_sync(group, load_pack(mine).word[1], flag_lane);
      if (flag == seen) {
        const bool ends = lane == 0 && polls % kPollsBetweenLooks == 0 &&
                          (load_volatile(abort_word) != 0 || clock_ns() - start > timeout_ns);
        if (__any_sync(group, ends)) {
          if (lane == 0) atomicExch(torn, kTornStoreAborted);
          return;
        }
        continue;
      }
      seen = flag;
      start = clock_ns();
      const Pack again = load_pack(mine);
      const bool old = again.word[0] < flag || again.word[1] < flag;
      if (__any_sync(group, old) && lane == 0) {
        // A count that says that the reader aborted stays.
        if (load_volatile(torn) < kTornStoreAborted - 1) atomicAdd(torn, 1u);
      }
    }
  }
}

unsigned blocks_for(uint32_t line_count) {
  const uint32_t wanted = (line_count + kLinesOfBlock - 1) / kLinesOfBlock;
  return wanted < kMostBlocks ? wanted : kMostBlocks;
}

// A kernel that is loaded when it is first launched may wait for what runs on the device: the
// reader that waits for this very writer.
cudaError_t load_kernels() {
  for (const void* kernel : {address_of(write_lines), address_of(read_lines)}) {
    cudaFuncAttributes attributes;
    if (const cudaError_t rc = cudaFuncGetAttributes(&attributes, kernel); rc != cudaSuccess)
      return rc;
  }
  return cudaSuccess;
}

}  // namespace

int torn_store_write(void* lines, uint32_t line_count, uint32_t rounds, void* stream) {
  if (line_count == 0) return cudaErrorInvalidValue;
  if (const cudaError_t rc = load_kernels(); rc != cudaSuccess) return rc;
  auto* to = static_cast<uint8_t*>(lines);
  void* arguments[] = {&to, &line_count, &rounds};
  return cudaLaunchKernel(address_of(write_lines), dim3(blocks_for(line_count)), dim3(kThreads),
                          arguments, 0, static_cast<cudaStream_t>(stream));
}

int torn_store_read(void* lines, uint32_t line_count, uint32_t rounds, uint32_t* torn,
                    const uint32_t* abort_word, int64_t timeout_ns, void* stream) {
  if (line_count == 0) return cudaErrorInvalidValue;
  if (const cudaError_t rc = load_kernels(); rc != cudaSuccess) return rc;
  const auto* from = static_cast<const uint8_t*>(lines);
  void* arguments[] = {&from, &line_count, &rounds, &torn, &abort_word, &timeout_ns};
  return cudaLaunchKernel(address_of(read_lines), dim3(blocks_for(line_count)), dim3(kThreads),
                          arguments, 0, static_cast<cudaStream_t>(stream));
}

}  // namespace collctl::kernels::cuda
