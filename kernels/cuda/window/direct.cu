// Host side of the direct kernels, which work between users' buffers.
#include "kernels/cuda/window/direct.cuh"

#include "kernels/cuda/table.h"
#include "kernels/cuda/window/host.cuh"
#include "kernels/cuda/window/launch.h"

namespace collctl::kernels::cuda {

namespace {

constexpr uint64_t kMostChunk = 16 * 1024;  // of what goes through no slot

bool has_slices(Collective c) {
  return c == Collective::all_reduce || c == Collective::reduce;
}

// All ranks describe the operation alike, though some of the description be of no account.
Exchange direct_exchange_of(const WindowLaunch& launch) {
  Exchange x = exchange_of(launch);
  const bool rooted = x.collective == Collective::broadcast || x.collective == Collective::reduce ||
                      x.collective == Collective::gather || x.collective == Collective::scatter;
  if (!rooted) x.root = 0;
  if (moves_only(x.collective)) x.ops.op = RedOp::sum;
  x.announces = true;
  return x;
}

template <WordKind kKind>
int launch_reduction(KernelId kernel, const WindowLaunch& launch, const Exchange& x,
                     const Direct& direct, int blocks) {
  return with_form(x, [&]<bool kCounting>() {
    return launch_kernel(kernel == KernelId::direct_two_shot ? &two_shot_direct<kKind, kCounting>
                                                             : &reduce_direct<kKind, kCounting>,
                         blocks, kStoreThreads, launch.stream, x, direct);
  });
}

const KernelRow* find_direct(Collective collective, int nranks, uint64_t bytes, DirectPath path) {
  return find_kernel({.through = Through::buffers,
                      .collective = collective,
                      .nranks = nranks,
                      .bytes = bytes,
                      .direct = path});
}

template <WordKind kKind, bool kCounting>
int prepare_reductions() {
  const int failed = prepare_kernel(&two_shot_direct<kKind, kCounting>);
  return failed != 0 ? failed : prepare_kernel(&reduce_direct<kKind, kCounting>);
}

}  // namespace

bool window_direct(Collective collective, DataType, RedOp, int nranks, uint64_t bytes) {
  return find_direct(collective, nranks, bytes, DirectPath::best) != nullptr;
}

int launch_direct(const WindowLaunch& launch) {
  const Exchange x = direct_exchange_of(launch);
  const KernelRow* const row = find_direct(x.collective, x.memory.nranks, x.bytes, launch.direct);
  if (row == nullptr || launch.flat.base == nullptr) return cudaErrorInvalidValue;
  if (x.bytes == 0) return cudaSuccess;
  const auto ranks = uint64_t(x.memory.nranks);
  const bool relays = row->id == KernelId::direct_relay;
  const uint64_t parts = has_slices(x.collective) ? ranks : relays ? ranks - 1 : 1;
  const uint64_t each = (x.bytes + parts - 1) / parts;
  const int blocks = launch.blocks > 0 ? at_most(uint64_t(launch.blocks), kWindowBlocks)
                                       : at_most((each + 2047) / 2048, kWindowBlocks);
  Direct direct{};
  direct.flat = launch.flat;
  // Only contributions that are stored go through slots.
  const bool slots = row->id == KernelId::direct_two_shot && ranks > 1;
  direct.chunk_bytes = slots ? chunk_of(launch, each, int(ranks) - 1, blocks, kSlotBytes)
                             : chunk_of(launch, each, 1, blocks, kMostChunk);
  direct.relays = relays;
  switch (kind_of(launch.work)) {
    case WordKind::copy:
      return with_form(x, [&]<bool kCounting>() {
        return launch_kernel(&put_direct<kCounting>, blocks, kStoreThreads, launch.stream, x,
                             direct);
      });
    case WordKind::sum_float32:
      return launch_reduction<WordKind::sum_float32>(row->id, launch, x, direct, blocks);
    case WordKind::sum_float16:
      return launch_reduction<WordKind::sum_float16>(row->id, launch, x, direct, blocks);
    case WordKind::sum_bfloat16:
      return launch_reduction<WordKind::sum_bfloat16>(row->id, launch, x, direct, blocks);
    default:
      return launch_reduction<WordKind::generic>(row->id, launch, x, direct, blocks);
  }
}

int prepare_direct(bool counts_waits) {
  return prepare_forms(counts_waits, [&]<bool kCounting>() {
    int failed = prepare_kernel(&put_direct<kCounting>);
    if (failed == 0) failed = prepare_reductions<WordKind::sum_float32, kCounting>();
    if (failed == 0) failed = prepare_reductions<WordKind::sum_float16, kCounting>();
    if (failed == 0) failed = prepare_reductions<WordKind::sum_bfloat16, kCounting>();
    if (failed == 0) failed = prepare_reductions<WordKind::generic, kCounting>();
    return failed;
  });
}

}  // namespace collctl::kernels::cuda
