// The launcher of a build with nvcc.
#include "kernels/cuda/launcher/launcher.h"

#include <cuda_runtime.h>

#include <atomic>

#include "kernels/cuda/architectures.h"
#include "kernels/cuda/burn.h"
#include "kernels/cuda/moves/call.h"
#include "kernels/cuda/peer_copy.h"
#include "kernels/cuda/prepare.cuh"
#include "kernels/cuda/table.h"
#include "kernels/cuda/torn_store.h"
#include "kernels/cuda/verbs/run.cuh"
#include "kernels/cuda/verbs/sendrecv_call.h"
#include "kernels/cuda/window/launch.h"
#include "kernels/cuda/window_stand.h"

namespace collctl::kernels::cuda {
namespace {

WorksKernel kernel_of(Protocol protocol) {
  switch (protocol) {
    case Protocol::ll:
      return ll_kernel();
    case Protocol::ll128:
      return ll128_kernel();
    default:
      return simple_kernel();
  }
}

// Sorts the works by channel, a block for each channel that has any; works of one channel keep
// their order. False: a channel, or there are too many works.
bool make_batch(const WorksLaunch& launch, Batch& batch, int& blocks) {
  if (launch.work_count < 1 || launch.work_count > kMostWorks) return false;
  for (int i = 0; i < launch.work_count; ++i)
    if (launch.works[i].channel >= kMaxChannels || launch.works[i].protocol != launch.protocol)
      return false;
  batch.shared = launch.shared;
  int placed = 0;
  blocks = 0;
  for (int channel = 0; channel < kMaxChannels; ++channel) {
    const int before = placed;
    for (int i = 0; i < launch.work_count; ++i)
      if (launch.works[i].channel == channel) batch.works[placed++] = launch.works[i];
    if (placed == before) continue;
    batch.begin[blocks++] = uint16_t(before);
  }
  batch.begin[blocks] = uint16_t(placed);
  return true;
}

// Loads the kernels into the device in use.
cudaError_t load_kernels() {
  static std::atomic<uint64_t> loaded{0};  // bit by device
  int device = 0;
  if (const cudaError_t rc = cudaGetDevice(&device); rc != cudaSuccess) return rc;
  const uint64_t bit = uint64_t(1) << (unsigned(device) % 64);
  if ((loaded.load(std::memory_order_acquire) & bit) != 0) return cudaSuccess;
  for (const WorksKernel& kernel : {simple_kernel(), ll_kernel(), ll128_kernel()})
    if (const int rc = prepare_kernel(kernel.function); rc != 0) return cudaError_t(rc);
  for (const auto prepare : {prepare_sendrecv, prepare_moves})
    if (const int rc = prepare(); rc != 0) return cudaError_t(rc);
  loaded.fetch_or(bit, std::memory_order_release);
  return cudaSuccess;
}

int launch_works(const WorksLaunch& launch) {
  if (const cudaError_t rc = load_kernels(); rc != cudaSuccess) return rc;
  const WorksKernel kernel = kernel_of(launch.protocol);
  const int threads = launch.threads + (kernel.poster ? kWarp : 0);
  if (launch.threads < kLeastThreads || threads > kMostBlockThreads || threads % kWarp != 0)
    return cudaErrorInvalidValue;
  MovesCall moves;
  const KernelRow* const row = launch.work_count < 1
                                   ? nullptr
                                   : find_kernel({.through = Through::fifos,
                                                  .collective = launch.works[0].collective,
                                                  .algorithm = launch.works[0].algorithm,
                                                  .protocol = launch.protocol,
                                                  .messages_alone = sendrecv_serves(launch),
                                                  .few_moves = moves_of(launch, moves)});
  if (row == nullptr) return cudaErrorInvalidValue;
  if (row->id == KernelId::messages_fifo) return launch_sendrecv(launch);
  if (row->id == KernelId::moves) return launch_moves(launch, moves);
  Batch batch;
  int blocks = 0;
  if (!make_batch(launch, batch, blocks)) return cudaErrorInvalidValue;
  void* arguments[] = {&batch};
  return launch_overlapping(kernel.function, blocks, threads, launch.stream, arguments);
}

}  // namespace

const Launcher& launcher() {
  static const Launcher table{
      .built = true,
      .architectures = COLLCTL_CUDA_ARCHITECTURES,
      .most_works = kMostWorks,
      .prepare =
          [](bool counts_waits) {
            const int failed = load_kernels();
            return failed != 0 ? failed : prepare_windows(counts_waits);
          },
      .launch_works = launch_works,
      .window_part_bytes = window_part_bytes,
      .window_host_bytes = window_host_bytes,
      .window_own_bytes = window_own_bytes,
      .window_serves = window_serves,
      .window_direct = window_direct,
      .launch_window = launch_window,
      .window_stand = window_stand,
      .runs_on =
          [](int capability) { return code_for(COLLCTL_CUDA_ARCHITECTURES, capability) != 0; },
      .has_type =
          [](DataType type, int capability) {
            return !is_float8(type) || code_for(COLLCTL_CUDA_ARCHITECTURES, capability) >= 89;
          },
      .error_text = [](int error) { return cudaGetErrorString(static_cast<cudaError_t>(error)); },
      .torn_store_write = torn_store_write,
      .torn_store_read = torn_store_read,
      .peer_copy = peer_copy,
      .peer_chase = peer_chase,
      .burn = &kBurnKernels,
  };
  return table;
}

}  // namespace collctl::kernels::cuda
