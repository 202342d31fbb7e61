// The kernel of a protocol: block b runs the works of one channel, in their order. The works travel
// as a kernel argument, so a launch needs no memory of its own.
#pragma once
#include "kernels/algo/dispatch.h"
#include "kernels/cuda/overlap.cuh"
#include "kernels/cuda/verbs/block_fifo.cuh"

namespace collctl::kernels::cuda {

// Threads in a launch; a poster's warp comes on top. Registers are shared out by the largest block.
inline constexpr int kLeastThreads = 96;
inline constexpr int kMostBlockThreads = 640;

// Kernel arguments are at most 4 KiB, since CUDA 12.1 32,764 bytes: room for a work a channel.
// There is one kernel a protocol, as each compiles all it calls anew.
#if defined(CUDART_VERSION) && CUDART_VERSION >= 12010
inline constexpr int kMostWorks = kMaxChannels;
#else
inline constexpr int kMostWorks = 30;
#endif

// Works of block b: works[begin[b]] up to works[begin[b + 1]].
struct Batch {
  DeviceShared shared;
  uint16_t begin[kMaxChannels + 1];
  Work works[kMostWorks];
};
static_assert(sizeof(Batch) <= (kMostWorks < kMaxChannels ? 4096 : 32764));

// A type whose arithmetic is not in this code: reported, as the caller should have checked
// (Launcher::has_type).
__device__ inline bool can_compute(const Work& work) {
  const uint32_t reducing =
      collective_bit(Collective::all_reduce) | collective_bit(Collective::reduce_scatter) |
      collective_bit(Collective::reduce) | collective_bit(Collective::barrier);
  return kHasFloat8 || !is_float8(work.type) || (reducing & collective_bit(work.collective)) == 0;
}

__device__ inline bool can_run(const Work& work, const Team& team) {
  return can_compute(work) &&
         (!needs_window(work.algorithm) || work.nranks == 1 || team.links().window != nullptr);
}

// All threads of block `number`.
template <class Mover>
__device__ __forceinline__ void run_block(const Batch& batch, BlockShared& block, int number,
                                          int thread, int threads) {
  if (thread == 0) {
    block.reported = 0;
    for (TeamScratch& scratch : block.scratch) scratch.failed_phase = kNoPhase;
  }
  Team team(block, batch.shared, 0, thread, threads, Mover::kPoster);
  FifoBackend<Mover> backend(team);
  constexpr int kWords = sizeof(Work) / sizeof(uint32_t);
#pragma unroll 1
  for (int w = batch.begin[number]; w < batch.begin[number + 1]; ++w) {
    if (thread < kWords)
      reinterpret_cast<uint32_t*>(&block.work)[thread] =
          reinterpret_cast<const uint32_t*>(batch.works + w)[thread];
    __syncthreads();
    // A work that no algorithm supports is a planner's bug; the host sees it in the report.
    if (!can_run(block.work, team) || !run_algorithm(backend, block.work)) {
      if (thread == 0) team.report(ReportCode::bad_data, {-1, WaitSide::recv, 0, 0}, 0);
      return;
    }
    __syncthreads();  // the next work takes its place
  }
}

template <class Mover>
__global__ void __launch_bounds__(kMostBlockThreads, 1)
    works_kernel(const __grid_constant__ Batch batch) {
  COLL_BLOCK_SHARED(BlockShared, block);
  begin_launch();
  run_block<Mover>(batch, block, int(blockIdx.x), int(threadIdx.x), int(blockDim.x));
}

// Host: the kernel of a protocol.
struct WorksKernel {
  const void* function;
  bool poster;
};
template <class Mover>
WorksKernel works_kernel_of() {
  return {address_of(works_kernel<Mover>), Mover::kPoster};
}
WorksKernel simple_kernel();
WorksKernel ll_kernel();
WorksKernel ll128_kernel();

}  // namespace collctl::kernels::cuda
