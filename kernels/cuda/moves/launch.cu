#include <cuda_runtime.h>

#include "kernels/cuda/moves/moves.cuh"
#include "kernels/cuda/prepare.cuh"

namespace collctl::kernels::cuda {
namespace {

const void* kernel_of(Protocol protocol) {
  return protocol == Protocol::ll ? address_of(moves_kernel<Protocol::ll>)
                                  : address_of(moves_kernel<Protocol::simple>);
}

// A line or a pack a thread: those of a warp are side by side, and fewer warps take longer than
// they save.
int threads_for(const WorksLaunch& launch, const MovesCall& call) {
  const int most = min(launch.threads, kMostMoveThreads) / kWarp * kWarp;
  const uint32_t each = launch.protocol == Protocol::ll ? 8 : sizeof(Pack);
  const int useful = int((call.head.most_bytes + each - 1) / each);
  return max(kWarp, min((useful + kWarp - 1) / kWarp * kWarp, most));
}

}  // namespace

int launch_moves(const WorksLaunch& launch, const MovesCall& call) {
  void* arguments[] = {const_cast<MovesCall*>(&call)};
  return launch_overlapping(kernel_of(launch.protocol), launch.work_count,
                            threads_for(launch, call), launch.stream, arguments);
}

int prepare_moves() {
  for (const Protocol protocol : {Protocol::simple, Protocol::ll})
    if (const int failed = prepare_kernel(kernel_of(protocol))) return failed;
  return cudaSuccess;
}

}  // namespace collctl::kernels::cuda
