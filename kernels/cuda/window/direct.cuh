// Operations directly between users' buffers, which all ranks map: nothing is staged that need not
// be, and no rank copies into place what others have put there. Oracle: algo/symmetric.h.
//
// Opening: block by block ranks write each other that they have begun, and where their buffers are.
// From then on a peer's input may be read and its output be written to: whatever its stream did
// before is over. Closing: a barrier, block by block, so no rank's kernel ends before all that
// belongs into its output has arrived there and its input was read for the last time.
//
//   put     each rank stores what it has for others into their outputs
//   relay   broadcast to two and more: each of these loads a part of the root's input and stores it
//           into all their outputs, so that everything leaves the root once
//   load    each rank adds up its slice (or block) of all inputs, which it loads, and stores the
//           sums into all outputs that want them
//   store   all-reduce: contributions go into slots of who adds them up (store.cuh), as a
//           GPU stores faster than it loads; sums directly into all outputs. A chunk that arrived
//           does as much as the opening, so giving begins at once.
//
// In place: a place of a rank's buffer is read, then written, by one thread of one rank; by store
// what is written there was given away before, because it is part of the sum.
#pragma once
#include "kernels/cuda/window/two_shot_store.cuh"

namespace collctl::kernels::cuda {

// The needs of an operation beside its plain form.
struct Direct {
  FlatRange flat;
  uint32_t chunk_bytes;
  bool relays;

  __device__ uint8_t* slot(int rank) const { return flat.base + uint64_t(rank) * flat.stride; }
};

// The peers' buffers as the threads of a block know them once they have heard from all.
struct DirectShared {
  uint8_t* in[kMostPeers + 1];  // by rank
  // Where this rank writes, counted as Exchange::peer(), itself last; null: not there.
  uint8_t* to[kMostPeers + 1];
  uint32_t unaligned;  // some buffer of some rank is off 16 bytes
  uint32_t failed;     // the opening did; settled at the barrier behind it
};

__device__ inline bool reduces(const Exchange& x) {
  return x.collective == Collective::all_reduce || x.collective == Collective::reduce ||
         x.collective == Collective::reduce_scatter;
}
// The properties that all ranks must agree on beside the bytes, above the bits of an epoch.
__device__ inline uint64_t what_of(const Exchange& x) {
  static_assert(kCollectiveCount <= 16 && kDataTypeCount <= 16 && kRedOpCount <= 16 &&
                kMostPeers < 128);
  return uint64_t(x.root) << 12 | uint64_t(x.collective) << 8 | uint64_t(x.ops.type) << 4 |
         uint64_t(x.ops.op);
}
// The offset of a buffer in this rank's slot; 0 for none, which nobody uses.
__device__ inline uint64_t offset_of(const Exchange& x, const Direct& direct, const void* buffer) {
  return buffer == nullptr
             ? 0
             : uint64_t(static_cast<const uint8_t*>(buffer) - direct.slot(x.memory.rank));
}
// Where in the output of `rank`, at `out`, what this one has for it begins; null: nothing.
__device__ inline uint8_t* destination(const Exchange& x, bool relays, int rank, uint8_t* out) {
  const bool own = rank == x.memory.rank;
  if (relays && x.memory.rank != x.root) return rank == x.root ? nullptr : out;
  if (relays && !own) return nullptr;
  switch (x.collective) {
    case Collective::all_reduce:
      return out;
    case Collective::reduce:
      return rank == x.root ? out : nullptr;
    case Collective::reduce_scatter:
      return own ? out : nullptr;
    default:
      if (own) return x.copy_own ? out + x.own_out : nullptr;
      if (!x.gives(rank)) return nullptr;
      const bool places = x.collective == Collective::all_gather ||
                          x.collective == Collective::all_to_all ||
                          x.collective == Collective::gather;
      return places ? out + uint64_t(x.memory.rank) * x.bytes : out;
  }
}

// The opening's first half: thread t looks after the t-th peer. The fence has nothing of this
// launch to wait for; it is for what the stream did before, which peers are going to read.
__device__ inline void say_open(const Exchange& x, const Direct& direct, uint64_t epoch, int t) {
  if (t >= x.memory.nranks - 1) return;
  PeerCounters* there = x.counters(x.peer(t), x.memory.rank, int(blockIdx.x));
  const uint64_t values[] = {offset_of(x, direct, x.input), offset_of(x, direct, x.output),
                             x.bytes};
  fence_system();
#pragma unroll
  for (int i = 0; i < 3; ++i)
    store_together(reinterpret_cast<uint8_t*>(&there->announced[i]), values[i],
                   epoch | what_of(x) << kEpochBits);
}

// Its second half, by nranks threads; the block's or the group's barrier comes next. Where a peer
// does not arrive, or arrives with another operation, `to.failed` is set and nothing may be
// touched. `place`: where its waits are counted.
template <bool kCounting>
__device__ inline void hear_open(const Exchange& x, const Direct& direct, StoreShared& shared,
                                 DirectShared& to, uint64_t epoch, int t, int place) {
  const int others = x.memory.nranks - 1;
  if (t > others) return;
  const int p = t < others ? x.peer(t) : x.memory.rank;
  uint64_t input = offset_of(x, direct, x.input), output = offset_of(x, direct, x.output);
  if (t < others) {
    const auto* announced = x.counters(x.memory.rank, p, int(blockIdx.x))->announced;
    WaitLimit<kCounting> limit;
    uint64_t values[3], what = 0;
    const auto fail = [&] {
      atomicExch(&shared.failed, 1u);
      atomicExch(&to.failed, 1u);
    };
#pragma unroll
    for (int i = 0; i < 3; ++i)
      for (;;) {
        load_together(reinterpret_cast<const uint8_t*>(&announced[i]), values[i], what);
        if ((what & kEpochMask) == epoch) break;
        if (limit.over(x, Protocol::simple, p, WaitSide::recv, what & kEpochMask, epoch))
          return fail();
      }
    limit.join(place, p, WaitSide::recv);
    fence_system();  // what is read of the peer's input from here on is no older
    what >>= kEpochBits;
    if (what != what_of(x) || values[2] != x.bytes) {
      const bool same = what == what_of(x);
      write_report(x, same ? ReportCode::wrong_size : ReportCode::bad_data, Protocol::simple, p,
                   WaitSide::recv, same ? values[2] : what, same ? x.bytes : what_of(x));
      return fail();
    }
    input = values[0];
    output = values[1];
  }
  if ((input | output) % 16 != 0) atomicOr(&to.unaligned, 1u);
  to.in[p] = direct.slot(p) + input;
  to.to[t] = destination(x, direct.relays, p, direct.slot(p) + output);
}

// All threads of a launch that does nothing before it is open. False: it never will be.
template <bool kCounting>
__device__ inline bool open_together(const Exchange& x, const Direct& direct, StoreShared& shared,
                                     DirectShared& to, uint64_t epoch) {
  const int t = int(threadIdx.x);
  say_open(x, direct, epoch, t);
  hear_open<kCounting>(x, direct, shared, to, epoch, t, kWholeBlock);
  __syncthreads();
  if constexpr (kCounting)
    if (t == 0) count_together(kWholeBlock);
  return to.failed == 0;
}

// Completion is not announced where something was aborted.
template <bool kCounting>
__device__ inline void close_together(const Exchange& x, StoreShared& shared, uint64_t epoch) {
  __syncthreads();
  const int k = int(threadIdx.x);
  if (shared.failed != 0 || k >= x.memory.nranks - 1) return;
  const int p = x.peer(k);
  store_release(&x.counters(p, x.memory.rank, int(blockIdx.x))->closed, epoch);
  wait_counter<kCounting>(x, Protocol::simple, p,
                          &x.counters(x.memory.rank, p, int(blockIdx.x))->closed, epoch);
}

// Whether what is the same for all blocks of a launch lets it move 16 bytes at a time.
__device__ inline bool strides_aligned(const Exchange& x) {
  return (x.in_stride | x.out_stride | x.own_in | x.own_out | x.reduce_own) % 16 == 0;
}

// Sums go to all that want them.
struct EmitDirect {
  const DirectShared& to;
  uint64_t from;  // bytes into the outputs
  int ranks;
  __device__ void pack(uint32_t at, const uint4& v) const {
    for (int k = 0; k < ranks; ++k)
      if (uint8_t* out = to.to[k]) plain(*reinterpret_cast<uint4*>(out + from + at)) = v;
  }
  __device__ void word(uint32_t at, uint64_t w, uint64_t have) const {
    for (int k = 0; k < ranks; ++k)
      if (uint8_t* out = to.to[k]) store_word(out + from + at, int64_t(have), w);
  }
};

// --- store ---

template <WordKind kKind, bool kVec, bool kCounting>
__device__ void sum_given(Group<kCounting>& group, const Slices& slices, const Chunks& chunks,
                          const DirectShared& to, uint64_t from_chunk) {
  const Exchange& x = group.x;
  const int me = x.memory.rank, mine = group.peer();
  for (uint64_t c = from_chunk; c < chunks.count; c = group.next()) {
    const uint64_t next_in = mine >= 0 ? group.number(kReceived, mine, c) : 0;
    if (mine >= 0)
      group.wait(counts_of(x, x.layout.arrived, me, mine) + group.slot(next_in), next_in, mine,
                 WaitSide::recv);
    group.start();
    const uint64_t at = slices.first(me) + chunks.at(c);
    // Data that did not arrive leaves peers' outputs as they are.
    if (!group.has_failed())
      reduce_staged<kKind, kVec>(
          x, x.input + at,
          [&](int p) { return slot_of(x, x.layout.stage, me, p, group.number(kReceived, p, c)); },
          chunks.size(c, slices.size(me)), group.t, EmitDirect{to, at, x.memory.nranks});
    group.end();
    if (mine >= 0 && !group.has_failed())
      store_volatile(counts_of(x, x.layout.taken, mine, me) + group.slot(next_in), next_in + 1);
  }
}

// One group of a block gives and then helps the two that add up.
template <WordKind kKind, bool kCounting>
__global__ void __launch_bounds__(kStoreThreads)
    two_shot_direct(const __grid_constant__ Exchange x, const __grid_constant__ Direct direct) {
  COLL_BLOCK_SHARED(StoreShared, shared);
  COLL_BLOCK_SHARED(DirectShared, to);
  constexpr int kHeard = kStoreGroups + 1, kTold = kStoreGroups + 2;  // barriers
  begin_launch([&] { fetch_arguments(x); });
  const uint64_t epoch = x.epochs()[blockIdx.x] + 1;
  if (threadIdx.x == 0) to.unaligned = to.failed = 0;
  begin_store<kCounting>(x, shared);
  const Slices slices(x);
  const Chunks chunks(slices.each, direct.chunk_bytes);
  const auto turns = [&](StoreRole of) {
    return of == StoreRole::sum ? chunks.count : chunks.count * (x.memory.nranks - 1);
  };
  const int number = int(threadIdx.x) / kGroupThreads, t = int(threadIdx.x) % kGroupThreads;
  if (number == 0) {
    Group<kCounting> giver(x, shared, turns(StoreRole::give), StoreRole::give, 0, 1);
    if (reinterpret_cast<uintptr_t>(x.input) % 16 == 0)
      push_slices<true>(giver, slices, chunks);
    else
      push_slices<false>(giver, slices, chunks);
    barrier_sync(kTold, 2 * kGroupThreads);
  } else {
    if (number == 1) {
      say_open(x, direct, epoch, t);
      hear_open<kCounting>(x, direct, shared, to, epoch, t, number);
      if constexpr (kCounting) {
        group_sync<kGroupThreads>(number);
        if (t == 0) count_together(number);
      }
    }
    barrier_sync(kHeard, (kStoreGroups - 1) * kGroupThreads);
    if (number == 1) barrier_arrive(kTold, 2 * kGroupThreads);
  }
  Group<kCounting> group(x, shared, turns(StoreRole::sum), StoreRole::sum,
                         number == 0 ? 0 : number - 1, kStoreGroups - 1);
  uint64_t from = number == 0 ? group.join() : group.first();
  if (to.failed != 0) from = chunks.count;
  if (to.unaligned == 0)
    sum_given<kKind, true>(group, slices, chunks, to, from);
  else
    sum_given<kKind, false>(group, slices, chunks, to, from);
  close_together<kCounting>(x, shared, epoch);
  end_store<kCounting>(
      x, shared, chunks.count, epoch,
      [](int, Count count) { return count == kSent || count == kReceived; },
      [&](StoreRole role) -> uint64_t {
        if (role == StoreRole::take) return 0;
        return turns(role) + (role == StoreRole::sum ? gridDim.x : 0);
      });
}

// --- load ---

template <WordKind kKind, bool kVec, bool kCounting>
__device__ void sum_loaded(Group<kCounting>& group, const Chunks& chunks, const DirectShared& to,
                           uint64_t in_at, uint64_t out_at) {
  const Exchange& x = group.x;
  for (uint64_t c = group.first(); c < chunks.count; c = group.next()) {
    group.start();
    const uint64_t at = chunks.at(c);
    reduce_staged<kKind, kVec>(
        x, x.input + in_at + at, [&](int p) { return to.in[p] + in_at + at; }, chunks.size(c),
        group.t, EmitDirect{to, out_at + at, x.memory.nranks});
    group.end();
  }
}

template <WordKind kKind, bool kCounting>
__global__ void __launch_bounds__(kStoreThreads)
    reduce_direct(const __grid_constant__ Exchange x, const __grid_constant__ Direct direct) {
  COLL_BLOCK_SHARED(StoreShared, shared);
  COLL_BLOCK_SHARED(DirectShared, to);
  begin_launch([&] { fetch_arguments(x); });
  const uint64_t epoch = x.epochs()[blockIdx.x] + 1;
  if (threadIdx.x == 0) to.unaligned = to.failed = 0;
  begin_store<kCounting>(x, shared);
  const bool scatters = x.collective == Collective::reduce_scatter;
  const Slices slices(x);
  const uint64_t slice = slices.first(x.memory.rank);
  const uint64_t bytes = scatters ? x.bytes : slices.size(x.memory.rank);
  const Chunks chunks(bytes, direct.chunk_bytes);
  const bool open = open_together<kCounting>(x, direct, shared, to, epoch);
  if (open) {
    Group<kCounting> group(x, shared, chunks.count, StoreRole::sum,
                           int(threadIdx.x) / kGroupThreads, kStoreGroups);
    const uint64_t in_at = scatters ? x.reduce_own : slice, out_at = scatters ? 0 : slice;
    if (to.unaligned == 0 && strides_aligned(x))
      sum_loaded<kKind, true>(group, chunks, to, in_at, out_at);
    else
      sum_loaded<kKind, false>(group, chunks, to, in_at, out_at);
  }
  close_together<kCounting>(x, shared, epoch);
  end_store<kCounting>(
      x, shared, chunks.count, epoch, [](int, Count) { return false; },
      [&](StoreRole role) { return open && role == StoreRole::sum ? chunks.count : 0; });
}

// --- put, relay ---

// The part that a rank other than the root relays.
struct Part {
  uint64_t first, bytes;
};
__device__ inline Part relayed(const Exchange& x) {
  const uint64_t others = uint64_t(x.memory.nranks - 1);
  const uint64_t each = align_up((x.bytes + others - 1) / others, 16);
  const uint64_t first = uint64_t(place_of(x.memory.rank, x.root, x.memory.nranks)) * each;
  if (first >= x.bytes) return {0, 0};
  return {first, x.bytes - first < each ? x.bytes - first : each};
}

// The threads of a group store n bytes into all destinations that there are. Out of a peer's memory
// they are loaded without stale lines.
template <bool kVec>
__device__ __forceinline__ void spread_bytes(const uint8_t* from, const DirectShared& to,
                                             uint64_t at, int ranks, uint32_t n, int t) {
  uint32_t done = 0;
  if constexpr (kVec) {
    constexpr int kUnroll = 4;
    const uint32_t packs = n / 16;
    for (uint32_t p = t; p < packs; p += kUnroll * kGroupThreads) {
      uint4 v[kUnroll];
#pragma unroll
      for (int i = 0; i < kUnroll; ++i)
        if (p + i * kGroupThreads < packs) v[i] = load_staged(from + 16 * (p + i * kGroupThreads));
      for (int k = 0; k < ranks; ++k) {
        if (to.to[k] == nullptr) continue;
        auto* out = reinterpret_cast<uint4*>(to.to[k] + at);
#pragma unroll
        for (int i = 0; i < kUnroll; ++i)
          if (p + i * kGroupThreads < packs) plain(out[p + i * kGroupThreads]) = v[i];
      }
    }
    done = packs * 16;
  }
  for (uint32_t w = done + t * 8; w < n; w += kGroupThreads * 8) {
    const uint64_t v = load_word(from + w, n - w);
    for (int k = 0; k < ranks; ++k)
      if (to.to[k] != nullptr) store_word(to.to[k] + at + w, n - w, v);
  }
}

template <bool kVec, bool kCounting>
__device__ void put_chunks(Group<kCounting>& group, const Chunks& chunks, const DirectShared& to,
                           const uint8_t* input, uint64_t first) {
  const Exchange& x = group.x;
  const int ranks = x.memory.nranks, others = ranks - 1;
  for (uint64_t c = group.first(); c < chunks.count; c = group.next()) {
    group.start();
    const uint64_t at = chunks.at(c);
    const uint32_t n = chunks.size(c);
    if (x.in_stride == 0) {
      spread_bytes<kVec>(input + first + at, to, first + at, ranks, n, group.t);
    } else {
      for (int k = 0; k < ranks; ++k) {
        if (to.to[k] == nullptr) continue;
        const uint64_t from = k < others ? x.peer(k) * x.in_stride : x.own_in;
        copy_bytes<kVec, false>(x.input + from + at, to.to[k] + at, n, group.t);
      }
    }
    group.end();
  }
}

template <bool kCounting>
__global__ void __launch_bounds__(kStoreThreads)
    put_direct(const __grid_constant__ Exchange x, const __grid_constant__ Direct direct) {
  COLL_BLOCK_SHARED(StoreShared, shared);
  COLL_BLOCK_SHARED(DirectShared, to);
  begin_launch([&] { fetch_arguments(x); });
  const uint64_t epoch = x.epochs()[blockIdx.x] + 1;
  if (threadIdx.x == 0) to.unaligned = to.failed = 0;
  begin_store<kCounting>(x, shared);
  const bool relays = direct.relays && x.memory.rank != x.root;
  const bool gives = relays || x.copy_own || (x.gives_to != Peers::none && !direct.relays);
  const Part part = relays ? relayed(x) : Part{0, x.bytes};
  const Chunks chunks(part.bytes, direct.chunk_bytes);
  const bool open = open_together<kCounting>(x, direct, shared, to, epoch);
  if (open && gives) {
    Group<kCounting> group(x, shared, chunks.count, StoreRole::give,
                           int(threadIdx.x) / kGroupThreads, kStoreGroups);
    const uint8_t* input = relays ? to.in[x.root] : x.input;
    if (to.unaligned == 0 && strides_aligned(x))
      put_chunks<true>(group, chunks, to, input, part.first);
    else
      put_chunks<false>(group, chunks, to, input, part.first);
  }
  close_together<kCounting>(x, shared, epoch);
  end_store<kCounting>(
      x, shared, chunks.count, epoch, [](int, Count) { return false; },
      [&](StoreRole role) { return open && gives && role == StoreRole::give ? chunks.count : 0; });
}

}  // namespace collctl::kernels::cuda
