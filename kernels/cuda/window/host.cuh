// Host side of all window kernels: an operation in its plain form, and how a kernel of them is
// launched. Included by the sources that hold them.
#pragma once
#include <type_traits>

#include "kernels/cuda/prepare.cuh"
#include "kernels/cuda/window/exchange_lines.cuh"

namespace collctl::kernels::cuda {

inline bool moves_only(Collective c) {
  return c != Collective::all_reduce && c != Collective::barrier && c != Collective::reduce &&
         c != Collective::reduce_scatter;
}

inline WordKind kind_of(const Work& work) {
  if (moves_only(work.collective)) return WordKind::copy;
  if (work.op != RedOp::sum) return WordKind::generic;
  if (work.type == DataType::float32) return WordKind::sum_float32;
  if (work.type == DataType::float16) return WordKind::sum_float16;
  if (work.type == DataType::bfloat16) return WordKind::sum_bfloat16;
  return WordKind::generic;
}

inline Exchange exchange_of(const WindowLaunch& launch) {
  const Work& w = launch.work;
  Exchange x{};
  x.input = static_cast<const uint8_t*>(w.input);
  x.output = static_cast<uint8_t*>(w.output);
  x.bytes = w.count * element_size(w.type);
  x.memory = launch.memory;
  x.layout = layout_of(launch.memory);
  x.ops = {w.type, w.op, w.nranks};
  x.shared = launch.shared;
  x.op_count = w.op_count;
  x.root = w.root;
  x.collective = w.collective;
  x.algorithm = w.algorithm;
  x.gives_to = x.takes_from = Peers::all;
  const bool root = w.rank == w.root;
  const uint64_t mine = uint64_t(w.rank) * x.bytes;
  const auto keep_own = [&](uint64_t in, uint64_t out) {
    x.own_in = in;
    x.own_out = out;
    x.copy_own = x.input + in != x.output + out;
  };
  switch (w.collective) {
    case Collective::all_gather:
      x.out_stride = x.bytes;
      keep_own(0, mine);
      break;
    case Collective::reduce_scatter:
      x.in_stride = x.bytes;
      x.reduce_own = mine;
      break;
    case Collective::all_to_all:
      x.in_stride = x.out_stride = x.bytes;
      keep_own(mine, mine);
      break;
    case Collective::broadcast:
      x.gives_to = root ? Peers::all : Peers::none;
      x.takes_from = root ? Peers::none : Peers::root;
      if (root) keep_own(0, 0);
      break;
    case Collective::scatter:
      x.gives_to = root ? Peers::all : Peers::none;
      x.takes_from = root ? Peers::none : Peers::root;
      x.in_stride = x.bytes;
      if (root) keep_own(mine, 0);
      break;
    case Collective::gather:
      x.gives_to = root ? Peers::none : Peers::root;
      x.takes_from = root ? Peers::all : Peers::none;
      x.out_stride = x.bytes;
      if (root) keep_own(0, mine);
      break;
    case Collective::reduce:
      x.gives_to = root ? Peers::none : Peers::root;
      x.takes_from = root ? Peers::all : Peers::none;
      break;
    default:  // all_reduce, barrier
      break;
  }
  x.announces = w.collective == Collective::broadcast || w.collective == Collective::scatter ||
                w.collective == Collective::gather || w.collective == Collective::reduce;
  return x;
}

// Whether all of a user's buffers, and the blocks in them, begin at multiples of `to` bytes.
inline bool aligned(const Exchange& x, uint64_t to) {
  const uint64_t all = reinterpret_cast<uintptr_t>(x.input) |
                       reinterpret_cast<uintptr_t>(x.output) | x.in_stride | x.out_stride |
                       x.own_in | x.own_out | x.reduce_own;
  return all % to == 0;
}

inline int at_most(uint64_t value, int bound) {
  return value < uint64_t(bound) ? (value == 0 ? 1 : int(value)) : bound;
}

// Kernels come in two forms (WaitLimit): runs call<kCounting>() for the one that is wanted;
// prepares both, or the one that counts nothing.
template <class Call>
int with_form(const Exchange& x, Call call) {
  return x.shared.waits != nullptr ? call.template operator()<true>()
                                   : call.template operator()<false>();
}
template <class Prepare>
int prepare_forms(bool counts_waits, Prepare prepare) {
  const int failed = prepare.template operator()<false>();
  return failed != 0 || !counts_waits ? failed : prepare.template operator()<true>();
}

template <Places kPlaces = Places::any, class... Arguments>
int launch_kernel(void (*kernel)(Arguments...), int blocks, int threads, void* stream,
                  const std::type_identity_t<Arguments>&... arguments) {
  void* all[] = {const_cast<void*>(static_cast<const void*>(&arguments))...};
  return launch_overlapping(address_of(kernel), blocks, threads, stream, all, kPlaces);
}

// Chunks as measured best on 2 and 4 GPUs over NVLink (PERFORMANCE.md): what is staged should stay
// in the cache until it is taken; of small operations every group gets a turn. `turns`: of a chunk.
inline uint32_t chunk_of(const WindowLaunch& launch, uint64_t bytes, int turns, int groups,
                         uint64_t largest) {
  constexpr uint64_t kBest = 16 * 1024, kLeast = 1024;
  if (launch.chunk_bytes >= kSlotBytes) return kSlotBytes;
  if (launch.chunk_bytes > 0) return launch.chunk_bytes < 16 ? 16 : launch.chunk_bytes / 16 * 16;
  const uint64_t even = align_up((bytes * turns + groups - 1) / groups, kLeast);
  return uint32_t(even < largest ? even : kBest);
}

// The chunk of data that goes one way between two ranks: whole slots, of which a sender has few. On
// 2 GPUs they are as good as smaller chunks, in a ring of four better (4 x H100: 1 GiB 3200 us, of
// 16 KiB 3690).
inline uint32_t one_way_chunk(const WindowLaunch& launch, uint64_t bytes) {
  constexpr uint64_t kFrom = uint64_t(kWindowBlocks) * kSlotBytes;
  if (launch.chunk_bytes == 0 && bytes >= kFrom) return kSlotBytes;
  return chunk_of(launch, bytes, 1, kWindowBlocks, kSlotBytes);
}

// Through host memory, of a rank that gives `bytes` in all (2 x H200, all-reduce of 256 KiB, 1, 4,
// 16 MiB, us: 26, 55, 174, 512 by 64 blocks and whole slots; 30, 57, 147, 507 by 32 and halves; 28,
// 58, 157, 473 by 64 and halves). Each chunk waits for PCI Express several times, so there are few;
// of more bytes some are read while others are written, unless they go one way.
struct HostCut {
  int blocks;
  uint32_t chunk;
};
inline HostCut host_cut(uint64_t bytes, bool one_way) {
  constexpr uint64_t kOneRound = uint64_t(1) << 20, kFewBlocks = uint64_t(4) << 20;
  if (one_way || bytes <= kOneRound) return {64, kSlotBytes};
  return {bytes <= kFewBlocks ? 32 : 64, kSlotBytes / 2};
}

// The number of blocks for data that goes by lines.
template <class L>
int line_blocks(const Exchange& x, int asked) {
  const uint32_t units = units_of<L>(x.bytes);
  // Few warps on many multiprocessors are faster than the other way round.
  return asked > 0 ? asked : at_most((units + 3) / 4, kWindowBlocks);
}
template <class L>
int line_threads(const Exchange& x, int blocks) {
  const uint32_t units = units_of<L>(x.bytes);
  const uint32_t warps = (units + blocks - 1) / blocks;
  // As many threads as peers at least: each looks after one.
  const int least = x.memory.nranks > 32 ? 64 : 32;
  const int threads = at_most(warps, kLineThreads / 32) * 32;
  return threads < least ? least : threads;
}

}  // namespace collctl::kernels::cuda
