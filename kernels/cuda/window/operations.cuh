// Host side of whole operations by window kernels: how many blocks, and in which form runs what
// table.h names. All of it for the kernels that count waits, and for those that do not (WaitLimit).
#pragma once
#include "kernels/cuda/table.h"
#include "kernels/cuda/window/broadcast_lines.cuh"
#include "kernels/cuda/window/broadcast_store.cuh"
#include "kernels/cuda/window/exchange_store.cuh"
#include "kernels/cuda/window/host.cuh"
#include "kernels/cuda/window/two_shot.cuh"
#include "kernels/cuda/window/two_shot_store.cuh"
#include "kernels/cuda/window/words.cuh"

namespace collctl::kernels::cuda {

// Batches of whole aligned words.
template <class L, bool kCounting>
using Small = Batch<L, 1, 4, true, kCounting>;
template <class L, bool kCounting>
using Middle = Batch<L, 1, 1, true, kCounting>;
template <class L, bool kCounting>
using Large = Batch<L, 3, 1, true, kCounting>;
// Batches of all else. Ranks may differ in it: where lines lie does not depend on who moves them.
template <class L, bool kCounting>
using Odd = Batch<L, 1, 1, false, kCounting>;
template <class L, bool kCounting>
using OddLarge = Batch<L, 4, 1, false, kCounting>;
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
inline int parts_of(KernelId kernel, const Exchange& x) {
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

template <class L, WordKind kKind, bool kCounting>
int launch_lines(KernelId kernel, const Exchange& x, int asked, void* stream) {
  const int blocks = line_blocks<L>(x, asked);
  const bool odd = !aligned(x, 8) || x.bytes % 8 != 0;
  if constexpr (L::kId == Protocol::ll128) {
    const uint32_t units = units_of<L>(x.bytes), warps = uint32_t(blocks) * kLineThreads / 32;
    if (odd && units > warps)
      return launch_batches<OddLarge<L, kCounting>, kKind>(kernel, x, blocks, stream);
    const uint32_t each = units / uint32_t(parts_of(kernel, x));
    // Measured on 2 GPUs: alone is slower for who has little more than a round. Sums have registers
    // for one block only.
    if (!odd && each > warps + warps / 2)
      return launch_batches<Large<L, kCounting>, kKind, Places::alone>(kernel, x, blocks, stream);
    if (!odd && each > warps)
      return launch_batches<Large<L, kCounting>, kKind>(kernel, x, blocks, stream);
    // Measured on 4 GPUs: up to four warps' work of each slice or block. One peer's never are too
    // many.
    if (!odd && x.memory.nranks > 2 && each > uint32_t(blocks) * kSmallWarps)
      return launch_batches<Middle<L, kCounting>, kKind>(kernel, x, blocks, stream);
  }
  if (odd) return launch_batches<Odd<L, kCounting>, kKind>(kernel, x, blocks, stream);
  if constexpr (L::kId == Protocol::ll && summed_by_words(kKind)) {
    if (kernel == KernelId::words)
      return launch_kernel(&sum_words<kKind, kCounting>, blocks, line_threads<L>(x, blocks), stream,
                           x);
  }
  return launch_batches<Small<L, kCounting>, kKind>(kernel, x, blocks, stream);
}

template <WordKind kKind, bool kCounting>
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
      return launch_kernel(
          vec ? &two_shot_store<kKind, true, kCounting> : &two_shot_store<kKind, false, kCounting>,
          blocks, kStoreThreads, stream, x, chunk);
  }
  if constexpr (kKind == WordKind::copy) {
    if (dealt)
      return launch_kernel(
          vec ? &broadcast_store<true, kCounting> : &broadcast_store<false, kCounting>, blocks,
          kStoreThreads, stream, x, chunk);
  }
  return launch_kernel(
      vec ? &exchange_store<kKind, true, kCounting> : &exchange_store<kKind, false, kCounting>,
      blocks, kStoreThreads, stream, x, chunk);
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
template <WordKind kKind, bool kCounting>
int prepare_kind() {
  int failed = prepare_lines<Small<Lines<Protocol::ll>, kCounting>, kKind>();
  if (failed == 0) failed = prepare_lines<Odd<Lines<Protocol::ll>, kCounting>, kKind>();
  if (failed == 0) failed = prepare_lines<Odd<Lines<Protocol::ll128>, kCounting>, kKind>();
  if (failed == 0) failed = prepare_lines<OddLarge<Lines<Protocol::ll128>, kCounting>, kKind>();
  if (failed == 0) failed = prepare_lines<Small<Lines<Protocol::ll128>, kCounting>, kKind>();
  if (failed == 0) failed = prepare_lines<Middle<Lines<Protocol::ll128>, kCounting>, kKind>();
  if (failed == 0) failed = prepare_lines<Large<Lines<Protocol::ll128>, kCounting>, kKind>();
  if constexpr (summed_by_words(kKind))
    if (failed == 0) failed = prepare_kernel(&sum_words<kKind, kCounting>);
  if (failed == 0) failed = prepare_kernel(&exchange_store<kKind, true, kCounting>);
  if (failed == 0) failed = prepare_kernel(&exchange_store<kKind, false, kCounting>);
  if constexpr (kKind != WordKind::copy) {
    if (failed == 0) failed = prepare_kernel(&two_shot_store<kKind, true, kCounting>);
    if (failed == 0) failed = prepare_kernel(&two_shot_store<kKind, false, kCounting>);
  } else {
    if (failed == 0) failed = prepare_kernel(&broadcast_store<true, kCounting>);
    if (failed == 0) failed = prepare_kernel(&broadcast_store<false, kCounting>);
  }
  return failed;
}

// A warp has one unit of lines, and a lane one word of the buffers.
inline bool word_a_lane(const Exchange& x, WordKind kind, int asked) {
  using L = Lines<Protocol::ll>;
  if (!summed_by_words(kind) || !aligned(x, 8) || x.bytes % 8 != 0) return false;
  const int blocks = line_blocks<L>(x, asked);
  return uint64_t(blocks) * line_threads<L>(x, blocks) * 8 >= x.bytes;
}

template <WordKind kKind, bool kCounting>
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
      return launch_lines<Lines<Protocol::ll>, kKind, kCounting>(row->id, x, asked, launch.stream);
    case Protocol::ll128:
      return launch_lines<Lines<Protocol::ll128>, kKind, kCounting>(row->id, x, asked,
                                                                    launch.stream);
    default:
      return launch_store<kKind, kCounting>(row->id, x, asked, launch);
  }
}

template <bool kCounting>
int launch_operation(const Exchange& x, const WindowLaunch& launch) {
  switch (kind_of(launch.work)) {
    case WordKind::copy:
      return launch_kind<WordKind::copy, kCounting>(x, launch);
    case WordKind::sum_float32:
      return launch_kind<WordKind::sum_float32, kCounting>(x, launch);
    case WordKind::sum_float16:
      return launch_kind<WordKind::sum_float16, kCounting>(x, launch);
    case WordKind::sum_bfloat16:
      return launch_kind<WordKind::sum_bfloat16, kCounting>(x, launch);
    default:
      return launch_kind<WordKind::generic, kCounting>(x, launch);
  }
}

template <bool kCounting>
int prepare_operations() {
  int failed = prepare_kind<WordKind::copy, kCounting>();
  if (failed == 0) failed = prepare_kind<WordKind::sum_float32, kCounting>();
  if (failed == 0) failed = prepare_kind<WordKind::sum_float16, kCounting>();
  if (failed == 0) failed = prepare_kind<WordKind::sum_bfloat16, kCounting>();
  if (failed == 0) failed = prepare_kind<WordKind::generic, kCounting>();
  return failed;
}

// In a file of their own, which is compiled beside the others (operations_counting.cu).
extern template int launch_operation<true>(const Exchange&, const WindowLaunch&);
extern template int prepare_operations<true>();

}  // namespace collctl::kernels::cuda
