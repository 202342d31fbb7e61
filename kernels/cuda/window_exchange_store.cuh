// One-shot on a GPU by store, for large sizes: pipelined chunks in slots of the receiver, counters
// beside them. Threads of a block form groups that give and one that takes. Oracle:
// algo/one_shot.h.
#pragma once
#include "kernels/cuda/window_lines.cuh"

namespace collctl::kernels::cuda {

inline constexpr int kGroupThreads = 256;                // of each part of a store kernel's block
inline constexpr int kStoreThreads = 3 * kGroupThreads;  // two give, one takes

// Lanes that waited for a peer come back to their warp first: a named barrier wants whole warps.
__device__ __forceinline__ void group_sync(int barrier) {
  __syncwarp();
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
    store_word(to + w, n - w, load_word(from + w, n - w));
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
    store_word(to + w, n - w, load_volatile(reinterpret_cast<const uint64_t*>(from + w)));
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
                             ? load_word(own + w, n - w)
                             : load_volatile(reinterpret_cast<const uint64_t*>(slot(r) + w));
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
    store_word(to + at, int64_t(have), w);
  }
};

// What the groups of a block tell each other.
struct StoreShared {
  uint64_t pushed[2];  // by giving group: all its chunks below this one were read out of the input
  int failed;
};

// Waits until `word` is above `above`; sets `failed` when given up.
__device__ inline void wait_counter(const Exchange& x, const uint64_t* word, uint64_t above,
                                    int peer, WaitSide side, volatile int& failed) {
  Patience patience;
  for (uint64_t seen; !failed && (seen = load_acquire(word)) <= above;)
    if (patience.over(x, Protocol::simple, peer, side, seen, above + 1)) failed = 1;
}
// The same for a slot: free once the taker has taken all but kStageSlots - 1 of what came before.
__device__ inline void wait_slot(const Exchange& x, const uint64_t* taken, uint64_t number,
                                 int peer, volatile int& failed) {
  if (number >= kStageSlots)
    wait_counter(x, taken, number - kStageSlots, peer, WaitSide::send, failed);
}

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
      wait_slot(x, &x.counters(x.memory.rank, mine, block)->taken, number, mine, shared.failed);
    }
    group_sync(1 + group);
    for (int k = 0; k < others && !shared.failed; ++k) {
      const int p = x.peer(k);
      if (!x.gives(p)) continue;
      copy_bytes<kVec>(x.input + p * x.in_stride + part.at + c * part.chunk_bytes,
                       slot_of(x, x.layout.stage, p, x.memory.rank, x.own(p, block)->sent + c),
                       part.size(c), t);
    }
    group_sync(1 + group);
    if (t == 0) shared.pushed[group] = c + 1;
    if (gives && !shared.failed) {
      const uint64_t number = x.own(mine, block)->sent + c;
      store_release(&x.counters(mine, x.memory.rank, block)->arrived[number & 1], number + 1);
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
      wait_counter(x, &x.counters(x.memory.rank, mine, block)->arrived[number & 1], number, mine,
                   WaitSide::recv, shared.failed);
    }
    // In place: what is written here must have been given away before.
    if (t == kGroupThreads - 1 && x.gives_to != Peers::none)
      while (shared.pushed[c & 1] <= c && !shared.failed) __nanosleep(20);
    group_sync(3);
    const uint64_t at = part.at + c * part.chunk_bytes;
    const uint32_t n = part.size(c);
    const auto slot = [&](int p) {
      return slot_of(x, x.layout.stage, x.memory.rank, p, x.own(p, block)->received + c);
    };
    if constexpr (kKind == WordKind::copy) {
      for (int k = 0; k < others; ++k) {
        const int p = x.peer(k);
        if (x.takes(p) && !shared.failed)
          copy_staged<kVec>(slot(p), x.output + p * x.out_stride + at, n, t);
      }
    } else if (!shared.failed) {
      reduce_staged<kKind, kVec>(x, x.input + x.reduce_own + at, slot, n, t,
                                 EmitOutput{x.output + at});
    }
    group_sync(3);
    // What was staged has been used by now: the loads are over, and nothing else was written.
    if (takes && !shared.failed)
      store_volatile(&x.counters(mine, x.memory.rank, block)->taken,
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
