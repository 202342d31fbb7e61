// Host side of the window kernels: an operation in its plain form, how many blocks, which kernel.
#include "kernels/cuda/window_launch.h"

#include "kernels/cuda/window_broadcast_lines.cuh"
#include "kernels/cuda/window_broadcast_store.cuh"
#include "kernels/cuda/window_exchange_store.cuh"
#include "kernels/cuda/window_two_shot.cuh"
#include "kernels/cuda/window_two_shot_store.cuh"

namespace collctl::kernels::cuda {

namespace {

bool moves_only(Collective c) {
  return c != Collective::all_reduce && c != Collective::barrier && c != Collective::reduce &&
         c != Collective::reduce_scatter;
}

WordKind kind_of(const Work& work) {
  if (moves_only(work.collective)) return WordKind::copy;
  if (work.op != RedOp::sum) return WordKind::generic;
  if (work.type == DataType::float32) return WordKind::sum_float32;
  if (work.type == DataType::float16) return WordKind::sum_float16;
  if (work.type == DataType::bfloat16) return WordKind::sum_bfloat16;
  return WordKind::generic;
}

Exchange exchange_of(const WindowLaunch& launch) {
  const Work& w = launch.work;
  Exchange x{};
  x.input = static_cast<const uint8_t*>(w.input);
  x.output = static_cast<uint8_t*>(w.output);
  x.bytes = w.count * element_size(w.type);
  x.memory = launch.memory;
  x.layout = window_layout(launch.memory.nranks);
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
  x.meets = w.collective == Collective::broadcast || w.collective == Collective::scatter ||
            w.collective == Collective::gather || w.collective == Collective::reduce;
  return x;
}

bool aligned(const Exchange& x) {
  const uint64_t all = reinterpret_cast<uintptr_t>(x.input) |
                       reinterpret_cast<uintptr_t>(x.output) | x.in_stride | x.out_stride |
                       x.own_in | x.own_out | x.reduce_own;
  return all % 16 == 0;
}

// A broadcast whose receivers hand on what they get.
bool is_dealt(const Exchange& x, Protocol protocol) {
  return x.collective == Collective::broadcast &&
         broadcast_is_dealt(protocol, x.memory.nranks, x.bytes);
}

int at_most(uint64_t value, int bound) {
  return value < uint64_t(bound) ? (value == 0 ? 1 : int(value)) : bound;
}

template <class L>
int line_blocks(const Exchange& x, int asked) {
  const uint64_t units = units_of<L>(x.bytes);
  // Few warps on many multiprocessors are faster than the other way round.
  return asked > 0 ? asked : at_most((units + 3) / 4, kWindowBlocks);
}
template <class L>
int line_threads(const Exchange& x, int blocks) {
  const uint64_t units = units_of<L>(x.bytes);
  const uint64_t warps = (units + blocks - 1) / blocks;
  // As many threads as peers at least: each looks after one.
  const int least = x.memory.nranks > 32 ? 64 : 32;
  const int threads = at_most(warps, kLineThreads / 32) * 32;
  return threads < least ? least : threads;
}

// With the attribute that lets a kernel take its place before the one ahead of it is over; devices
// from compute capability 9.0 on know it.
template <class... Arguments>
int launch_kernel(void (*kernel)(Arguments...), int blocks, int threads, void* stream,
                  const Arguments&... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(unsigned(blocks));
  config.blockDim = dim3(unsigned(threads));
  config.stream = static_cast<cudaStream_t>(stream);
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &attribute;
  config.numAttrs = overlaps_launches(reinterpret_cast<const void*>(kernel)) ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

template <class L>
using Small = Batch<L, 1, 4>;
template <class L>
using Middle = Batch<L, 1, 1>;
template <class L>
using Large = Batch<L, 4, 1>;
constexpr int kSmallWarps = 4;  // of a block

template <class B, WordKind kKind>
int launch_batches(const Exchange& x, int blocks, void* stream) {
  const int threads = line_threads<typename B::L>(x, blocks);
  if (x.algorithm == AlgorithmId::two_shot) {
    if constexpr (kKind != WordKind::copy)
      return launch_kernel(&two_shot_lines<B, kKind>, blocks, threads, stream, x);
  }
  if constexpr (kKind == WordKind::copy && B::L::kId == Protocol::ll128) {
    if (is_dealt(x, Protocol::ll128))
      return launch_kernel(&broadcast_lines<B>, blocks, threads, stream, x);
  }
  return launch_kernel(&exchange_lines<B, kKind>, blocks, threads, stream, x);
}

template <class L, WordKind kKind>
int launch_lines(const Exchange& x, int asked, void* stream) {
  const int blocks = line_blocks<L>(x, asked);
  if constexpr (L::kId == Protocol::ll128) {
    const uint64_t units = units_of<L>(x.bytes);
    if (units > uint64_t(blocks) * kLineThreads / 32)
      return launch_batches<Large<L>, kKind>(x, blocks, stream);
    // Measured on 4 GPUs: up to four warps' work of each slice or block.
    const bool dealt = kKind == WordKind::copy && is_dealt(x, Protocol::ll128);
    const uint64_t each = x.algorithm == AlgorithmId::two_shot ? units / x.memory.nranks
                          : dealt                              ? units / (x.memory.nranks - 1)
                                                               : units;
    if (each > uint64_t(blocks) * kSmallWarps)
      return launch_batches<Middle<L>, kKind>(x, blocks, stream);
  }
  return launch_batches<Small<L>, kKind>(x, blocks, stream);
}

// Chunks as measured best on 2 and 4 GPUs over NVLink (PERFORMANCE.md): what is staged should stay
// in the cache until it is taken; of small operations every block gets a turn. `turns`: of a chunk.
uint32_t chunk_of(uint64_t bytes, int turns, int blocks, uint64_t largest) {
  constexpr uint64_t kBest = 16 * 1024, kLeast = 1024;
  const uint64_t even = align_up((bytes * turns + blocks - 1) / blocks, kLeast);
  return uint32_t(even < largest ? even : kBest);
}

template <WordKind kKind>
int launch_store(const Exchange& x, int asked, uint32_t chunk, void* stream) {
  const bool two_shot = x.algorithm == AlgorithmId::two_shot;
  const bool dealt = kKind == WordKind::copy && is_dealt(x, Protocol::simple);
  const int slices = two_shot ? x.memory.nranks : dealt ? x.memory.nranks - 1 : 1;
  const uint64_t each = (x.bytes + slices - 1) / slices;
  const int blocks = asked > 0 ? asked : at_most((each + 2047) / 2048, kWindowBlocks);
  const int turns = two_shot || dealt ? x.memory.nranks - 1 : 1;
  // One round of chunks as large as slots is faster than two of half the size, in two-shot.
  const uint64_t largest = two_shot ? kSlotBytes : 16 * 1024;
  chunk = chunk > 0 ? (chunk < kSlotBytes ? chunk / 16 * 16 : kSlotBytes)
                    : chunk_of(each, turns, blocks * (dealt ? 2 : 1), largest);
  const bool vec = aligned(x);
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

// The kernel's code is on the device from now on: CUDA would bring it there at the first launch,
// and may wait for kernels under way to do so, which may be waiting for that launch.
template <class... Arguments>
int prepare_kernel(void (*kernel)(Arguments...)) {
  cudaFuncAttributes facts;
  return cudaFuncGetAttributes(&facts, kernel);
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
  if (failed == 0) failed = prepare_lines<Small<Lines<Protocol::ll128>>, kKind>();
  if (failed == 0) failed = prepare_lines<Middle<Lines<Protocol::ll128>>, kKind>();
  if (failed == 0) failed = prepare_lines<Large<Lines<Protocol::ll128>>, kKind>();
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

template <WordKind kKind>
int launch_kind(const Exchange& x, const WindowLaunch& launch) {
  const int asked = launch.blocks > kWindowBlocks ? kWindowBlocks : launch.blocks;
  switch (launch.work.protocol) {
    case Protocol::ll:
      return launch_lines<Lines<Protocol::ll>, kKind>(x, asked, launch.stream);
    case Protocol::ll128:
      return launch_lines<Lines<Protocol::ll128>, kKind>(x, asked, launch.stream);
    default:
      return launch_store<kKind>(x, asked, launch.chunk_bytes, launch.stream);
  }
}

}  // namespace

uint64_t window_part_bytes(int nranks) {
  return window_layout(nranks).total;
}

bool window_serves(Collective collective, AlgorithmId algorithm, Protocol protocol, DataType, RedOp,
                   int nranks, uint64_t bytes) {
  if (collective == Collective::send_recv || nranks - 1 > kMostPeers) return false;
  if (algorithm == AlgorithmId::two_shot) {
    if (collective != Collective::all_reduce && collective != Collective::barrier) return false;
    // A bank holds contributions and results of a slice, each rounded up to units.
    bytes = bytes / uint64_t(nranks) * 2 + 4 * 512;
  } else if (algorithm != AlgorithmId::one_shot) {
    return false;
  } else if (collective == Collective::broadcast && broadcast_is_dealt(protocol, nranks, bytes)) {
    bytes = bytes / uint64_t(nranks - 1) * 2 + 4 * 512;  // likewise
  }
  switch (protocol) {
    case Protocol::ll:
      return bytes <= ll_capacity();
    case Protocol::ll128:
      // Whole units only.
      return bytes + 480 <= ll128_capacity(nranks);
    default:
      return true;
  }
}

int prepare_windows() {
  int failed = prepare_kind<WordKind::copy>();
  if (failed == 0) failed = prepare_kind<WordKind::sum_float32>();
  if (failed == 0) failed = prepare_kind<WordKind::sum_float16>();
  if (failed == 0) failed = prepare_kind<WordKind::sum_bfloat16>();
  if (failed == 0) failed = prepare_kind<WordKind::generic>();
  return failed;
}

int launch_window(const WindowLaunch& launch) {
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
