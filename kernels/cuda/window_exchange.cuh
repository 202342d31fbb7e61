// One-shot on a GPU: every rank gives each peer its bytes straight and puts together what it gets.
// Two kernels: by lines (small and middle sizes: data and news travel together) and by store (large
// ones: pipelined chunks in slots, counters beside them). The oracle of both is algo/one_shot.h.
#pragma once
#include "kernels/cuda/window_lines.cuh"

namespace collctl::kernels::cuda {

inline constexpr int kLineThreads = 512;
inline constexpr int kGroupThreads = 256;                // of each part of a store kernel's block
inline constexpr int kStoreThreads = 3 * kGroupThreads;  // two give, one takes

// The end of an operation in which not every rank heard from every other: they meet, so that no
// one starts the next but one before all have ended this one (window_layout.h). Block by block.
__device__ inline void meet(const Exchange& x, Protocol protocol, uint64_t epoch) {
  if (!x.meets) return;
  __syncthreads();
  const int k = int(threadIdx.x);
  if (k >= x.memory.nranks - 1) return;
  const int p = x.peer(k);
  store_word_release(&x.counters(p, x.memory.rank, int(blockIdx.x))->confirmed, epoch);
  const PeerCounters* c = x.counters(x.memory.rank, p, int(blockIdx.x));
  Patience patience;
  for (uint64_t seen; (seen = load_word_acquire(&c->confirmed)) < epoch;)
    if (patience.over(x, protocol, p, WaitSide::send, seen, epoch)) return;
}

// Units of one warp: every stride-th from the first, kBatch at a time so that as many loads are on
// their way. What a warp writes it has read before as input, so an operation in place is right.
template <class L>
struct Batch {
  static constexpr int kUnits = L::kLaneWords == 1 ? 2 : 4;
  uint64_t first, stride;  // in units
  __device__ Batch() {
    const uint64_t warps = blockDim.x / 32;
    first = blockIdx.x * warps + threadIdx.x / 32;
    stride = gridDim.x * warps;
  }
  __device__ uint64_t unit(uint64_t turn, int i) const {
    return first + (turn * kUnits + i) * stride;
  }
  // Turns until all of `units` are done.
  __device__ uint64_t turns(uint64_t units) const {
    const uint64_t mine = units > first ? (units - first + stride - 1) / stride : 0;
    return (mine + kUnits - 1) / kUnits;
  }
};

template <class L>
__device__ __forceinline__ void give_lines(const Exchange& x, const Batch<L>& batch, uint64_t turn,
                                           uint64_t units, int lane, uint64_t epoch) {
  constexpr int kUnits = Batch<L>::kUnits;
  const int others = x.memory.nranks - 1;
  LaneData d[kUnits];
  bool loaded = false;
  for (int k = 0; k < others; ++k) {
    const int p = x.peer(k);
    if (!x.gives(p)) continue;
    if (!loaded || x.in_stride != 0) {
#pragma unroll
      for (int i = 0; i < kUnits; ++i)
        if (const uint64_t u = batch.unit(turn, i); u < units)
          d[i] = load_lane<L>(x.input + p * x.in_stride, x.bytes, u, lane);
      loaded = true;
    }
    uint8_t* bank = bank_of<L>(x, p, x.memory.rank, epoch);
#pragma unroll
    for (int i = 0; i < kUnits; ++i)
      if (const uint64_t u = batch.unit(turn, i); u < units)
        L::store(bank + u * 512, lane, d[i], epoch);
  }
}

// A batch of units out of one bank; the whole warp together. False: given up.
template <class L>
__device__ __forceinline__ bool wait_batch(const Exchange& x, const uint8_t* bank,
                                           const Batch<L>& batch, uint64_t turn, uint64_t units,
                                           int lane, uint64_t epoch, int peer,
                                           LaneData (&d)[Batch<L>::kUnits]) {
  constexpr int kUnits = Batch<L>::kUnits;
  Patience patience;
  while (true) {
    bool missing = false;
#pragma unroll
    for (int i = 0; i < kUnits; ++i)
      if (const uint64_t u = batch.unit(turn, i); u < units)
        missing |= !L::load(bank + u * 512, lane, d[i], epoch);
    if (!__any_sync(~0u, missing)) break;
    const bool over = patience.over(x, L::kId, peer, WaitSide::recv, epoch - 1, epoch);
    if (__any_sync(~0u, over)) return false;
  }
#pragma unroll
  for (int i = 0; i < kUnits; ++i)
    if (const uint64_t u = batch.unit(turn, i); u < units) L::settle(bank + u * 512, lane, d[i]);
  return true;
}

// Adds up a batch over all ranks, in their order.
template <class L, WordKind kKind>
__device__ __forceinline__ bool sum_batch(const Exchange& x, const uint8_t* own, uint64_t own_bytes,
                                          uint64_t own_first, const Batch<L>& batch, uint64_t turn,
                                          uint64_t units, int lane, uint64_t epoch,
                                          LaneData (&out)[Batch<L>::kUnits]) {
  constexpr int kUnits = Batch<L>::kUnits;
  LaneData mine[kUnits];
#pragma unroll
  for (int i = 0; i < kUnits; ++i)
    if (const uint64_t u = batch.unit(turn, i); u < units)
      mine[i] = load_lane<L>(own, own_bytes, own_first + u, lane);
  WordSum<kKind> sum[kUnits][L::kLaneWords];
  for (int r = 0; r < x.memory.nranks; ++r) {
    LaneData d[kUnits];
    if (r == x.memory.rank) {
#pragma unroll
      for (int i = 0; i < kUnits; ++i) d[i] = mine[i];
    } else if (!wait_batch<L>(x, bank_of<L>(x, x.memory.rank, r, epoch), batch, turn, units, lane,
                              epoch, r, d)) {
      return false;
    }
#pragma unroll
    for (int i = 0; i < kUnits; ++i)
#pragma unroll
      for (int w = 0; w < L::kLaneWords; ++w)
        r == 0 ? sum[i][w].first(d[i].word[w], x.ops) : sum[i][w].add(d[i].word[w], x.ops);
  }
#pragma unroll
  for (int i = 0; i < kUnits; ++i)
#pragma unroll
    for (int w = 0; w < L::kLaneWords; ++w) out[i].word[w] = sum[i][w].result(x.ops);
  return true;
}

template <class L, WordKind kKind>
__device__ __forceinline__ bool take_lines(const Exchange& x, const Batch<L>& batch, uint64_t turn,
                                           uint64_t units, int lane, uint64_t epoch) {
  constexpr int kUnits = Batch<L>::kUnits;
  LaneData d[kUnits];
  if constexpr (kKind != WordKind::copy) {
    if (!sum_batch<L, kKind>(x, x.input + x.reduce_own, x.bytes, 0, batch, turn, units, lane, epoch,
                             d))
      return false;
#pragma unroll
    for (int i = 0; i < kUnits; ++i)
      if (const uint64_t u = batch.unit(turn, i); u < units)
        store_lane<L>(x.output, x.bytes, u, lane, d[i]);
  } else {
    for (int k = 0; k < x.memory.nranks - 1; ++k) {
      const int p = x.peer(k);
      if (!x.takes(p)) continue;
      const uint8_t* bank = bank_of<L>(x, x.memory.rank, p, epoch);
      if (!wait_batch<L>(x, bank, batch, turn, units, lane, epoch, p, d)) return false;
#pragma unroll
      for (int i = 0; i < kUnits; ++i)
        if (const uint64_t u = batch.unit(turn, i); u < units)
          store_lane<L>(x.output + p * x.out_stride, x.bytes, u, lane, d[i]);
    }
  }
  return true;
}

template <class L, WordKind kKind>
__global__ void __launch_bounds__(kLineThreads) exchange_lines(const __grid_constant__ Exchange x) {
  begin_launch();
  const uint64_t epoch = x.epochs()[blockIdx.x] + 1;
  const int lane = int(threadIdx.x) % 32;
  const uint64_t units = units_of<L>(x.bytes);
  const Batch<L> batch;
  const uint64_t turns = batch.turns(units);
  // Giving is a turn ahead of taking.
  for (uint64_t turn = 0; turn <= turns; ++turn) {
    if (turn < turns && x.gives_to != Peers::none)
      give_lines<L>(x, batch, turn, units, lane, epoch);
    if (turn > 0 && x.takes_from != Peers::none &&
        !take_lines<L, kKind>(x, batch, turn - 1, units, lane, epoch))
      break;
  }
  if (x.copy_own)
    for (uint64_t u = batch.first; u < units; u += batch.stride)
      store_lane<L>(x.output + x.own_out, x.bytes, u, lane,
                    load_lane<L>(x.input + x.own_in, x.bytes, u, lane));
  meet(x, L::kId, epoch);
  end_epoch(x, epoch);
}

// --- by store ---------------------------------------------------------------------------------

__device__ __forceinline__ void group_sync(int barrier) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "n"(kGroupThreads) : "memory");
}
// Staged bytes are written by others while this kernel runs: never out of a stale L1 line.
__device__ __forceinline__ uint4 load_staged(const uint8_t* p) {
  uint4 v;
  asm volatile("ld.relaxed.sys.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p));
  return v;
}
__device__ __forceinline__ uint64_t low_word(const uint4& v) {
  return v.x | uint64_t(v.y) << 32;
}
__device__ __forceinline__ uint64_t high_word(const uint4& v) {
  return v.z | uint64_t(v.w) << 32;
}
__device__ __forceinline__ uint4 packed(uint64_t low, uint64_t high) {
  return {uint32_t(low), uint32_t(low >> 32), uint32_t(high), uint32_t(high >> 32)};
}

// How a store kernel cuts a block of `bytes`: grid blocks take parts, parts go in chunks.
struct Cut {
  uint64_t part_bytes;   // multiples of 16, but for what is left at the end
  uint32_t chunk_bytes;  // at most a slot
};

// A part of the operation as one block sees it.
struct StorePart {
  uint64_t at, bytes, chunks;
  uint32_t chunk_bytes;
  __device__ StorePart(const Exchange& x, const Cut& cut) : chunk_bytes(cut.chunk_bytes) {
    at = blockIdx.x * cut.part_bytes;
    bytes = at >= x.bytes ? 0 : x.bytes - at < cut.part_bytes ? x.bytes - at : cut.part_bytes;
    chunks = (bytes + chunk_bytes - 1) / chunk_bytes;
  }
  __device__ uint32_t size(uint64_t c) const {
    const uint64_t left = bytes - c * chunk_bytes;
    return left < chunk_bytes ? uint32_t(left) : chunk_bytes;
  }
};

__device__ inline uint8_t* slot_of(const Exchange& x, uint64_t region, int reader, int writer,
                                   uint64_t number) {
  const uint64_t place =
      blockIdx.x * uint64_t(x.memory.nranks - 1) + place_of(writer, reader, x.memory.nranks);
  return x.part(reader) + region +
         (place * kStageSlots + number % kStageSlots) * x.layout.slot_bytes;
}

// The threads of a group copy n bytes to several places; kVec: everything is 16-byte aligned.
template <bool kVec>
__device__ __forceinline__ void copy_bytes(const uint8_t* from, uint8_t* to, uint32_t n, int t) {
  uint32_t done = 0;
  if constexpr (kVec) {
    constexpr int kUnroll = 8;
    const uint32_t packs = n / 16;
    const auto* in = reinterpret_cast<const uint4*>(from);
    auto* out = reinterpret_cast<uint4*>(to);
    uint32_t p = t;
    for (; p + (kUnroll - 1) * kGroupThreads < packs; p += kUnroll * kGroupThreads) {
      uint4 v[kUnroll];
#pragma unroll
      for (int i = 0; i < kUnroll; ++i) v[i] = in[p + i * kGroupThreads];
#pragma unroll
      for (int i = 0; i < kUnroll; ++i) out[p + i * kGroupThreads] = v[i];
    }
    for (; p < packs; p += kGroupThreads) out[p] = in[p];
    done = packs * 16;
  }
  for (uint32_t w = done + t * 8; w < n; w += kGroupThreads * 8)
    store_user(to + w, load_user(from + w, n - w), n - w);
}
template <bool kVec>
__device__ __forceinline__ void copy_staged(const uint8_t* from, uint8_t* to, uint32_t n, int t) {
  uint32_t done = 0;
  if constexpr (kVec) {
    constexpr int kUnroll = 8;
    const uint32_t packs = n / 16;
    auto* out = reinterpret_cast<uint4*>(to);
    uint32_t p = t;
    for (; p + (kUnroll - 1) * kGroupThreads < packs; p += kUnroll * kGroupThreads) {
      uint4 v[kUnroll];
#pragma unroll
      for (int i = 0; i < kUnroll; ++i) v[i] = load_staged(from + 16 * (p + i * kGroupThreads));
#pragma unroll
      for (int i = 0; i < kUnroll; ++i) out[p + i * kGroupThreads] = v[i];
    }
    for (; p < packs; p += kGroupThreads) out[p] = load_staged(from + 16 * p);
    done = packs * 16;
  }
  for (uint32_t w = done + t * 8; w < n; w += kGroupThreads * 8)
    store_user(to + w, load_word_relaxed(reinterpret_cast<const uint64_t*>(from + w)), n - w);
}

// Adds up own bytes and one slot of every peer, in the order of ranks; what comes out goes to
// emit.pack(offset, 16 bytes) and emit.word(offset, word, bytes).
template <WordKind kKind, bool kVec, class Slot, class Emit>
__device__ __forceinline__ void reduce_staged(const Exchange& x, const uint8_t* own, Slot slot,
                                              uint32_t n, int t, Emit emit) {
  uint32_t done = 0;
  if constexpr (kVec) {
    constexpr int kUnroll = kKind == WordKind::generic ? 1 : kKind == WordKind::sum_float32 ? 4 : 2;
    const uint32_t packs = n / 16;
    for (uint32_t p = t; p < packs; p += kUnroll * kGroupThreads) {
      WordSum<kKind> sum[kUnroll][2];
      uint4 mine[kUnroll];
#pragma unroll
      for (int i = 0; i < kUnroll; ++i)
        if (p + i * kGroupThreads < packs)
          mine[i] = reinterpret_cast<const uint4*>(own)[p + i * kGroupThreads];
      for (int r = 0; r < x.memory.nranks; ++r) {
        const bool is_own = r == x.memory.rank;
        const uint8_t* from = is_own ? nullptr : slot(r);
        uint4 v[kUnroll];
#pragma unroll
        for (int i = 0; i < kUnroll; ++i)
          if (p + i * kGroupThreads < packs)
            v[i] = is_own ? mine[i] : load_staged(from + 16 * (p + i * kGroupThreads));
#pragma unroll
        for (int i = 0; i < kUnroll; ++i) {
          if (r == 0)
            sum[i][0].first(low_word(v[i]), x.ops), sum[i][1].first(high_word(v[i]), x.ops);
          else
            sum[i][0].add(low_word(v[i]), x.ops), sum[i][1].add(high_word(v[i]), x.ops);
        }
      }
#pragma unroll
      for (int i = 0; i < kUnroll; ++i)
        if (p + i * kGroupThreads < packs)
          emit.pack(16 * (p + i * kGroupThreads),
                    packed(sum[i][0].result(x.ops), sum[i][1].result(x.ops)));
    }
    done = packs * 16;
  }
  for (uint32_t w = done + t * 8; w < n; w += kGroupThreads * 8) {
    WordSum<kKind> sum;
    for (int r = 0; r < x.memory.nranks; ++r) {
      const uint64_t v = r == x.memory.rank
                             ? load_user(own + w, n - w)
                             : load_word_relaxed(reinterpret_cast<const uint64_t*>(slot(r) + w));
      r == 0 ? sum.first(v, x.ops) : sum.add(v, x.ops);
    }
    emit.word(w, sum.result(x.ops), n - w);
  }
}

// Into users' memory.
struct EmitOutput {
  uint8_t* to;
  __device__ void pack(uint32_t at, const uint4& v) const {
    *reinterpret_cast<uint4*>(to + at) = v;
  }
  __device__ void word(uint32_t at, uint64_t w, uint64_t have) const {
    store_user(to + at, w, have);
  }
};

// What the groups of a block tell each other.
struct StoreShared {
  uint64_t pushed[2];  // by giving group: all its chunks below this one were read out of the input
  int failed;
};

// The two groups that give, one the even chunks, one the odd ones: while one waits for its fence
// the other keeps the link busy. Slots are freed by the takers, chunk by chunk.
template <bool kVec>
__device__ void push_chunks(const Exchange& x, const StorePart& part,
                            volatile StoreShared& shared) {
  const int group = int(threadIdx.x) / kGroupThreads, t = int(threadIdx.x) % kGroupThreads;
  const int others = x.memory.nranks - 1, block = int(blockIdx.x);
  const int mine = t < others ? x.peer(t) : -1;
  const bool gives = mine >= 0 && x.gives(mine);
  for (uint64_t c = group; c < part.chunks; c += 2) {
    if (gives) {
      const uint64_t number = x.own(mine, block)->sent + c;
      const PeerCounters* counters = x.counters(x.memory.rank, mine, block);
      Patience patience;
      for (uint64_t seen; (seen = load_word_acquire(&counters->taken)) + kStageSlots <= number;)
        if (patience.over(x, Protocol::simple, mine, WaitSide::send, seen,
                          number + 1 - kStageSlots)) {
          shared.failed = 1;
          break;
        }
    }
    group_sync(1 + group);
    if (shared.failed) return;
    for (int k = 0; k < others; ++k) {
      const int p = x.peer(k);
      if (!x.gives(p)) continue;
      copy_bytes<kVec>(x.input + p * x.in_stride + part.at + c * part.chunk_bytes,
                       slot_of(x, x.layout.stage, p, x.memory.rank, x.own(p, block)->sent + c),
                       part.size(c), t);
    }
    group_sync(1 + group);
    if (t == 0) shared.pushed[group] = c + 1;
    if (gives) {
      const uint64_t number = x.own(mine, block)->sent + c;
      store_word_release(&x.counters(mine, x.memory.rank, block)->arrived[number & 1], number + 1);
    }
  }
}

template <WordKind kKind, bool kVec>
__device__ void take_chunks(const Exchange& x, const StorePart& part,
                            volatile StoreShared& shared) {
  const int t = int(threadIdx.x) % kGroupThreads, others = x.memory.nranks - 1;
  const int block = int(blockIdx.x);
  const int mine = t < others ? x.peer(t) : -1;
  const bool takes = mine >= 0 && x.takes(mine);
  if (x.copy_own)
    for (uint64_t c = 0; c < part.chunks; ++c) {
      const uint64_t at = part.at + c * part.chunk_bytes;
      copy_bytes<kVec>(x.input + x.own_in + at, x.output + x.own_out + at, part.size(c), t);
    }
  if (x.takes_from == Peers::none) return;
  for (uint64_t c = 0; c < part.chunks; ++c) {
    if (takes) {
      const uint64_t number = x.own(mine, block)->received + c;
      const PeerCounters* counters = x.counters(x.memory.rank, mine, block);
      Patience patience;
      for (uint64_t seen; (seen = load_word_acquire(&counters->arrived[number & 1])) <= number;)
        if (patience.over(x, Protocol::simple, mine, WaitSide::recv, seen, number + 1)) {
          shared.failed = 1;
          break;
        }
    }
    // In place: what is written here must have been given away before.
    if (t == kGroupThreads - 1 && x.gives_to != Peers::none)
      while (shared.pushed[c & 1] <= c && !shared.failed) __nanosleep(20);
    group_sync(3);
    if (shared.failed) return;
    const uint64_t at = part.at + c * part.chunk_bytes;
    const uint32_t n = part.size(c);
    const auto slot = [&](int p) {
      return slot_of(x, x.layout.stage, x.memory.rank, p, x.own(p, block)->received + c);
    };
    if constexpr (kKind == WordKind::copy) {
      for (int k = 0; k < others; ++k) {
        const int p = x.peer(k);
        if (x.takes(p)) copy_staged<kVec>(slot(p), x.output + p * x.out_stride + at, n, t);
      }
    } else {
      reduce_staged<kKind, kVec>(x, x.input + x.reduce_own + at, slot, n, t,
                                 EmitOutput{x.output + at});
    }
    group_sync(3);
    // What was staged has been used by now: the loads are over, and nothing else was written.
    if (takes)
      store_word_relaxed(&x.counters(mine, x.memory.rank, block)->taken,
                         x.own(mine, block)->received + c + 1);
  }
}

template <WordKind kKind, bool kVec>
__global__ void __launch_bounds__(kStoreThreads)
    exchange_store(const __grid_constant__ Exchange x, const Cut cut) {
  __shared__ StoreShared shared;
  if (threadIdx.x == 0) shared = {};
  __syncthreads();
  begin_launch();
  const uint64_t epoch = x.epochs()[blockIdx.x] + 1;
  const StorePart part(x, cut);
  if (threadIdx.x < 2 * kGroupThreads) {
    if (x.gives_to != Peers::none) push_chunks<kVec>(x, part, shared);
  } else {
    take_chunks<kKind, kVec>(x, part, shared);
  }
  __syncthreads();
  const int k = int(threadIdx.x);
  if (k < x.memory.nranks - 1) {
    const int p = x.peer(k);
    OwnCounters* own = x.own(p, int(blockIdx.x));
    if (x.gives(p)) own->sent += part.chunks;
    if (x.takes(p)) own->received += part.chunks;
  }
  meet(x, Protocol::simple, epoch);
  end_epoch(x, epoch);
}

}  // namespace collctl::kernels::cuda
