// Host side of the window kernels: how many blocks, and in which form runs what table.h names.
#include "kernels/cuda/window/launch.h"

#include "kernels/cuda/table.h"
#include "kernels/cuda/window/broadcast_lines.cuh"
#include "kernels/cuda/window/broadcast_store.cuh"
#include "kernels/cuda/window/exchange_store.cuh"
#include "kernels/cuda/window/host.cuh"
#include "kernels/cuda/window/two_shot.cuh"
#include "kernels/cuda/window/two_shot_store.cuh"
#include "kernels/cuda/window/words.cuh"

namespace collctl::kernels::cuda {

namespace {

// Batches of whole aligned words.
template <class L>
using Small = Batch<L, 1, 4, true>;
template <class L>
using Middle = Batch<L, 1, 1, true>;
template <class L>
using Large = Batch<L, 3, 1, true>;
// Batches of all else. Ranks may differ in it: where lines lie does not depend on who moves them.
template <class L>
using Odd = Batch<L, 1, 1, false>;
template <class L>
using OddLarge = Batch<L, 4, 1, false>;
constexpr int kSmallWarps = 4;  // of a block

constexpr bool summed_by_words(WordKind kind) {
  return kind != WordKind::copy && kind != WordKind::generic;
}

template <class B, WordKind kKind, Places kPlaces = Places::any>
int launch_batches(KernelId kernel, const Exchange& x, int blocks, void* stream) {
  const int threads = line_threads<typename B::L>(x, blocks);
  if (kernel == KernelId::lines_two_shot) {
    if constexpr (kKind != WordKind::copy)
      return launch_kernel<kPlaces>(&two_shot_lines<B, kKind>, blocks, threads, stream, x);
  }
  if (kernel == KernelId::lines_broadcast) {
    if constexpr (kKind == WordKind::copy && B::L::kId == Protocol::ll128)
      return launch_kernel<kPlaces>(&broadcast_lines<B>, blocks, threads, stream, x);
  }
  if (kernel != KernelId::lines) return cudaErrorInvalidValue;
  return launch_kernel<kPlaces>(&exchange_lines<B, kKind>, blocks, threads, stream, x);
}

// How many ranks divide the operation among them.
int parts_of(KernelId kernel, const Exchange& x) {
  switch (kernel) {
    case KernelId::lines_two_shot:
    case KernelId::store_two_shot:
      return x.memory.nranks;
    case KernelId::lines_broadcast:
    case KernelId::store_broadcast:
      return x.memory.nranks - 1;
    default:
      return 1;
  }
}

template <class L, WordKind kKind>
int launch_lines(KernelId kernel, const Exchange& x, int asked, void* stream) {
  const int blocks = line_blocks<L>(x, asked);
  const bool odd = !aligned(x, 8) || x.bytes % 8 != 0;
  if constexpr (L::kId == Protocol::ll128) {
    const uint32_t units = units_of<L>(x.bytes), warps = uint32_t(blocks) * kLineThreads / 32;
    if (odd && units > warps) return launch_batches<OddLarge<L>, kKind>(kernel, x, blocks, stream);
    const uint32_t each = units / uint32_t(parts_of(kernel, x));
    // Measured on 2 GPUs: alone is slower for who has little more than a round. Sums have registers
    // for one block only.
    if (!odd && each > warps + warps / 2)
      return launch_batches<Large<L>, kKind, Places::alone>(kernel, x, blocks, stream);
    if (!odd && each > warps) return launch_batches<Large<L>, kKind>(kernel, x, blocks, stream);
    // Measured on 4 GPUs: up to four warps' work of each slice or block. One peer's never are too
    // many.
    if (!odd && x.memory.nranks > 2 && each > uint32_t(blocks) * kSmallWarps)
      return launch_batches<Middle<L>, kKind>(kernel, x, blocks, stream);
  }
  if (odd) return launch_batches<Odd<L>, kKind>(kernel, x, blocks, stream);
  if constexpr (L::kId == Protocol::ll && summed_by_words(kKind)) {
    if (kernel == KernelId::words)
      return launch_kernel(&sum_words<kKind>, blocks, line_threads<L>(x, blocks), stream, x);
  }
  return launch_batches<Small<L>, kKind>(kernel, x, blocks, stream);
}

template <WordKind kKind>
int launch_store(KernelId kernel, const Exchange& x, int asked, const WindowLaunch& launch) {
  const bool two_shot = kernel == KernelId::store_two_shot;
  const bool dealt = kernel == KernelId::store_broadcast;
  const int slices = parts_of(kernel, x);
  const uint64_t each = (x.bytes + slices - 1) / slices;
  // All ranks cut alike, also those who give to one or to nobody.
  const bool to_one = x.collective == Collective::gather || x.collective == Collective::reduce;
  const bool host = x.memory.own != nullptr;
  const bool one_way = x.memory.nranks == 2 && x.announces && kKind == WordKind::copy;
  const int receivers = to_one || dealt ? 1 : x.memory.nranks - 1;
  const HostCut cut = host_cut(each * uint64_t(receivers), one_way);
  const int most = host ? cut.blocks : kWindowBlocks;
  const int blocks = asked > 0 ? asked : at_most((each + 2047) / 2048, most);
  const bool whole = !two_shot && kKind != WordKind::copy && x.in_stride == 0;
  const int turns = to_one || whole || x.memory.nranks == 1 ? 1 : x.memory.nranks - 1;
  // One round of chunks as large as slots is faster than two of half the size, in two-shot.
  const uint64_t largest = two_shot ? kSlotBytes : 16 * 1024;
  const uint32_t chunk = host && launch.chunk_bytes == 0 ? cut.chunk
                         : one_way
                             ? one_way_chunk(launch, each)
                             : chunk_of(launch, each, turns, blocks * (dealt ? 2 : 1), largest);
  void* const stream = launch.stream;
  const bool vec = aligned(x, 16);
  if (two_shot) {
    if constexpr (kKind != WordKind::copy)
      return launch_kernel(vec ? &two_shot_store<kKind, true> : &two_shot_store<kKind, false>,
                           blocks, kStoreThreads, stream, x, chunk);
  }
  if constexpr (kKind == WordKind::copy) {
    if (dealt)
      return launch_kernel(vec ? &broadcast_store<true> : &broadcast_store<false>, blocks,
                           kStoreThreads, stream, x, chunk);
  }
  return launch_kernel(vec ? &exchange_store<kKind, true> : &exchange_store<kKind, false>, blocks,
                       kStoreThreads, stream, x, chunk);
}

template <class B, WordKind kKind>
int prepare_lines() {
  if (const int failed = prepare_kernel(&exchange_lines<B, kKind>)) return failed;
  if constexpr (kKind != WordKind::copy)
    return prepare_kernel(&two_shot_lines<B, kKind>);
  else if constexpr (B::L::kId == Protocol::ll128)
    return prepare_kernel(&broadcast_lines<B>);
  else
    return 0;
}
template <WordKind kKind>
int prepare_kind() {
  int failed = prepare_lines<Small<Lines<Protocol::ll>>, kKind>();
  if (failed == 0) failed = prepare_lines<Odd<Lines<Protocol::ll>>, kKind>();
  if (failed == 0) failed = prepare_lines<Odd<Lines<Protocol::ll128>>, kKind>();
  if (failed == 0) failed = prepare_lines<OddLarge<Lines<Protocol::ll128>>, kKind>();
  if (failed == 0) failed = prepare_lines<Small<Lines<Protocol::ll128>>, kKind>();
  if (failed == 0) failed = prepare_lines<Middle<Lines<Protocol::ll128>>, kKind>();
  if (failed == 0) failed = prepare_lines<Large<Lines<Protocol::ll128>>, kKind>();
  if constexpr (summed_by_words(kKind))
    if (failed == 0) failed = prepare_kernel(&sum_words<kKind>);
  if (failed == 0) failed = prepare_kernel(&exchange_store<kKind, true>);
  if (failed == 0) failed = prepare_kernel(&exchange_store<kKind, false>);
  if constexpr (kKind != WordKind::copy) {
    if (failed == 0) failed = prepare_kernel(&two_shot_store<kKind, true>);
    if (failed == 0) failed = prepare_kernel(&two_shot_store<kKind, false>);
  } else {
    if (failed == 0) failed = prepare_kernel(&broadcast_store<true>);
    if (failed == 0) failed = prepare_kernel(&broadcast_store<false>);
  }
  return failed;
}

// A warp has one unit of lines, and a lane one word of the buffers.
bool word_a_lane(const Exchange& x, WordKind kind, int asked) {
  using L = Lines<Protocol::ll>;
  if (!summed_by_words(kind) || !aligned(x, 8) || x.bytes % 8 != 0) return false;
  const int blocks = line_blocks<L>(x, asked);
  return uint64_t(blocks) * line_threads<L>(x, blocks) * 8 >= x.bytes;
}

template <WordKind kKind>
int launch_kind(const Exchange& x, const WindowLaunch& launch) {
  const int asked = launch.blocks > kWindowBlocks ? kWindowBlocks : launch.blocks;
  const Protocol protocol = launch.work.protocol;
  const KernelRow* const row =
      find_kernel({.through = Through::window,
                   .collective = x.collective,
                   .algorithm = x.algorithm,
                   .protocol = protocol,
                   .nranks = x.memory.nranks,
                   .bytes = x.bytes,
                   .word_a_lane = protocol == Protocol::ll && word_a_lane(x, kKind, asked),
                   .general = launch.general});
  if (row == nullptr) return cudaErrorInvalidValue;
  switch (protocol) {
    case Protocol::ll:
      return launch_lines<Lines<Protocol::ll>, kKind>(row->id, x, asked, launch.stream);
    case Protocol::ll128:
      return launch_lines<Lines<Protocol::ll128>, kKind>(row->id, x, asked, launch.stream);
    default:
      return launch_store<kKind>(row->id, x, asked, launch);
  }
}

}  // namespace

uint64_t window_part_bytes(int nranks) {
  return window_layout(nranks).total;
}
uint64_t window_host_bytes(int nranks) {
  return window_layout(nranks, In::host).total;
}
uint64_t window_own_bytes(int nranks) {
  return window_layout(nranks, In::host).peers;
}

bool window_serves(Collective collective, AlgorithmId algorithm, Protocol protocol, DataType, RedOp,
                   int nranks, uint64_t bytes) {
  return find_kernel({.through = Through::window,
                      .collective = collective,
                      .algorithm = algorithm,
                      .protocol = protocol,
                      .nranks = nranks,
                      .bytes = bytes}) != nullptr;
}

int prepare_windows() {
  int failed = prepare_kind<WordKind::copy>();
  if (failed == 0) failed = prepare_kind<WordKind::sum_float32>();
  if (failed == 0) failed = prepare_kind<WordKind::sum_float16>();
  if (failed == 0) failed = prepare_kind<WordKind::sum_bfloat16>();
  if (failed == 0) failed = prepare_kind<WordKind::generic>();
  if (failed == 0) failed = prepare_direct();
  if (failed == 0) failed = prepare_messages();
  return failed;
}

int launch_window(const WindowLaunch& launch) {
  if (launch.rounds != nullptr) return launch_messages(launch);
  if (launch.direct != DirectPath::none) return launch_direct(launch);
  const Exchange x = exchange_of(launch);
  if (x.bytes == 0) return cudaSuccess;
  switch (kind_of(launch.work)) {
    case WordKind::copy:
      return launch_kind<WordKind::copy>(x, launch);
    case WordKind::sum_float32:
      return launch_kind<WordKind::sum_float32>(x, launch);
    case WordKind::sum_float16:
      return launch_kind<WordKind::sum_float16>(x, launch);
    case WordKind::sum_bfloat16:
      return launch_kind<WordKind::sum_bfloat16>(x, launch);
    default:
      return launch_kind<WordKind::generic>(x, launch);
  }
}

}  // namespace collctl::kernels::cuda
