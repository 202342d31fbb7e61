// The kernel that runs Work: block b of the grid runs works[b] over links[b]. Launched by host code of the CUDA
// executor and by tests; all blocks of ranks that wait for each other must be resident at once.
#pragma once
#include "kernels/algo/dispatch.h"
#include "kernels/cuda/block_fifo.cuh"

namespace collctl::kernels::cuda {

struct Launch {
  const Work* works;            // device memory, one a block
  const ChannelLinks* links;    // device memory, one a block; the fifos they point to as well
  Report* reports;              // host-mapped, one a block, code none before the launch
  uint32_t* abort_word;         // host-mapped
  long long timeout_ns;         // of a wait without progress
};

template <DataType kType, RedOp kOp, Protocol kProtocol>
__global__ void __launch_bounds__(512) run_works(Launch launch) {
  const Work& work = launch.works[blockIdx.x];
  const DeviceContext context{launch.abort_word, launch.reports + blockIdx.x, launch.timeout_ns};
  const Workers all{static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x), 3};
  FifoBackend<kType, kOp, kProtocol> backend(work, launch.links[blockIdx.x], context, all);
  // A work that no algorithm serves is a planner's mistake; the host sees it in the report.
  if (!run_algorithm(backend, work) && threadIdx.x == 0)
    launch.reports[blockIdx.x].code = ReportCode::bad_data;
}

}  // namespace collctl::kernels::cuda
