// The common parts of the two kernels that move large operations: groups of threads, chunks that go
// through slots of the receiver, and how groups get their chunks.
//
// An operation is a row of chunks. Any group of any block takes the next chunk of its role as soon
// as it is free (a ticket), so a block that gets less of the link does less, and none is left over
// at the end. Chunk c is number `first + c` of its pair of ranks, counted over all operations; it
// lies in slot number % slots at the receiver. Beside each slot stand two counts: at the receiver
// the last number that arrived there, at the giver the last one that was taken out of it.
// Nobody waits but for chunks with smaller numbers or of an earlier role, and tickets are drawn in
// order, so the groups that run get everything done, however many blocks have a place on the
// device.
#pragma once
#include "kernels/cuda/window/lines.cuh"

namespace collctl::kernels::cuda {

inline constexpr int kGroupThreads = 256;  // of each part of a store kernel's block
inline constexpr int kStoreGroups = 3;
inline constexpr int kStoreThreads = kStoreGroups * kGroupThreads;
static_assert(kStoreGroups == kWholeBlock);

__device__ __forceinline__ uint64_t low_word(const uint4& v) {
  return v.x | uint64_t(v.y) << 32;
}
__device__ __forceinline__ uint64_t high_word(const uint4& v) {
  return v.z | uint64_t(v.w) << 32;
}
__device__ __forceinline__ uint4 packed(uint64_t low, uint64_t high) {
  return {uint32_t(low), uint32_t(low >> 32), uint32_t(high), uint32_t(high >> 32)};
}

// The threads of a group copy n bytes, out of users' memory or out of what was staged; kVec:
// everything is 16-byte aligned.
template <bool kVec, bool kStaged>
__device__ __forceinline__ void copy_bytes(const uint8_t* from, uint8_t* to, uint32_t n, int t) {
  uint32_t done = 0;
  if constexpr (kVec) {
    constexpr int kUnroll = 4;
    const uint32_t packs = n / 16;
    const auto in = [&](uint32_t p) {
      return kStaged ? load_staged(from + 16 * p) : reinterpret_cast<const uint4*>(from)[p];
    };
    auto* out = reinterpret_cast<uint4*>(to);
    uint32_t p = t;
    for (; p + (kUnroll - 1) * kGroupThreads < packs; p += kUnroll * kGroupThreads) {
      uint4 v[kUnroll];
#pragma unroll
      for (int i = 0; i < kUnroll; ++i) v[i] = in(p + i * kGroupThreads);
#pragma unroll
      for (int i = 0; i < kUnroll; ++i) plain(out[p + i * kGroupThreads]) = v[i];
    }
    for (; p < packs; p += kGroupThreads) plain(out[p]) = in(p);
    done = packs * 16;
  }
  for (uint32_t w = done + t * 8; w < n; w += kGroupThreads * 8)
    store_word(to + w, n - w,
               kStaged ? load_volatile(reinterpret_cast<const uint64_t*>(from + w))
                       : load_word(from + w, n - w));
}

// Adds up own bytes and those of every peer at slot(peer), in the order of ranks; what comes out
// goes to emit.pack(offset, 16 bytes) and emit.word(offset, word, bytes).
template <WordKind kKind, bool kVec, class Slot, class Emit>
__device__ __forceinline__ void reduce_staged(const Exchange& x, const uint8_t* own, Slot slot,
                                              uint32_t n, int t, Emit emit) {
  uint32_t done = 0;
  if constexpr (kVec) {
    constexpr int kUnroll = kKind == WordKind::generic ? 1 : 2;
    const uint32_t packs = n / 16;
    const auto load = [&](int r, uint32_t p, uint4(&v)[kUnroll]) {
      const bool is_own = r == x.memory.rank;
      const uint8_t* from = is_own ? own : slot(r);
#pragma unroll
      for (int i = 0; i < kUnroll; ++i)
        if (p + i * kGroupThreads < packs) v[i] = load_staged(from + 16 * (p + i * kGroupThreads));
    };
    for (uint32_t p = t; p < packs; p += kUnroll * kGroupThreads) {
      // Those of two ranks are in flight together.
      WordSum<kKind> sum[kUnroll][2];
      uint4 v[kUnroll], w[kUnroll];
      load(0, p, v);
      const bool alone = x.memory.nranks == 1;
      if (!alone) load(1, p, w);
#pragma unroll
      for (int i = 0; i < kUnroll; ++i) {
        sum[i][0].first(low_word(v[i]), x.ops), sum[i][1].first(high_word(v[i]), x.ops);
        if (!alone) sum[i][0].add(low_word(w[i]), x.ops), sum[i][1].add(high_word(w[i]), x.ops);
      }
#pragma unroll 1
      for (int r = 2; r < x.memory.nranks; r += 2) {
        load(r, p, v);
        const bool both = r + 1 < x.memory.nranks;
        if (both) load(r + 1, p, w);
#pragma unroll
        for (int i = 0; i < kUnroll; ++i) {
          sum[i][0].add(low_word(v[i]), x.ops), sum[i][1].add(high_word(v[i]), x.ops);
          if (both) sum[i][0].add(low_word(w[i]), x.ops), sum[i][1].add(high_word(w[i]), x.ops);
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
      const uint64_t v = load_word((r == x.memory.rank ? own : slot(r)) + w, n - w);
      r == 0 ? sum.first(v, x.ops) : sum.add(v, x.ops);
    }
    emit.word(w, sum.result(x.ops), n - w);
  }
}

// How many peers those are.
__device__ inline uint64_t count_of(const Exchange& x, Peers which) {
  return which == Peers::all ? uint64_t(x.memory.nranks - 1) : which == Peers::root ? 1 : 0;
}
// A turn is a chunk of one peer: chunks in order, each for one peer after the other, and then, for
// `more` turns, none (-1).
struct PeerTurn {
  uint64_t chunk;
  int peer;
};
__device__ inline PeerTurn peer_turn(const Exchange& x, Peers which, uint64_t turn, int more = 0) {
  const uint64_t peers = count_of(x, which), chunk = turn / (peers + more);
  const uint64_t k = turn - chunk * (peers + more);
  return {chunk, k >= peers ? -1 : which == Peers::root ? x.root : x.peer(int(k))};
}

// State that the groups of a block share. `first` holds this launch's first number for each peer.
struct StoreShared {
  uint64_t next[kStoreGroups];  // the chunk each group goes on with
  uint64_t first[kMostPeers][kCounts];
  uint64_t drawn[kStoreRoles + 1];  // as in OwnBlock, its chunks at the end
  uint32_t failed;                  // some wait was aborted
};

// A kernel's chunks: those of `bytes` for each pair of ranks.
struct Chunks {
  uint64_t bytes, count;
  uint32_t each;
  __device__ Chunks(uint64_t n, uint32_t chunk)
      : bytes(n), count((n + chunk - 1) / chunk), each(chunk) {}
  __device__ uint64_t at(uint64_t c) const { return c * each; }
  __device__ uint32_t size(uint64_t c) const { return size(c, bytes); }
  // The size of chunk c in a row that is shorter than the longest.
  __device__ uint32_t size(uint64_t c, uint64_t of) const {
    const uint64_t from = at(c);
    return from >= of ? 0 : of - from < each ? uint32_t(of - from) : each;
  }
};

// One group at work on the turns of its role, each a chunk, or a chunk of one peer:
//   for (c = group.first(); c < count; c = group.next()) { wait...; start(); move; end(); post }
// The first chunk is the group's by its number; the others it asks for, each while it moves the one
// before. So a role asks as often as it has chunks, and once more for each group that joins when
// its own role is done: that is how blocks know what was asked for in earlier launches.
template <bool kCounting>
class Group {
 public:
  // `count`: of the role's turns. `number_of_role`: of this group among those of its block that
  // have the role, of `of_role`.
  __device__ Group(const Exchange& x, StoreShared& shared, uint64_t count, StoreRole role,
                   int number_of_role, int of_role)
      : x(x),
        t(int(threadIdx.x) % kGroupThreads),
        count(count),
        shared_(shared),
        number_(int(threadIdx.x) / kGroupThreads),
        first_(number_of_role * gridDim.x + blockIdx.x),
        ticket_(&x.store().tickets[int(role)].drawn),
        not_drawn_(of_role * gridDim.x - shared.drawn[int(role)]) {}
  const Exchange& x;
  const int t;
  const uint64_t count;

  __device__ uint64_t first() const { return first_; }
  // Instead: of a group that comes late, when its own role is done.
  __device__ uint64_t join() {
    sync();  // all have seen that there is no next one in the role before
    if (t == 0) {
      drawn_ = atomicAdd(reinterpret_cast<unsigned long long*>(ticket_), 1ull);
      shared_.next[number_] = has_failed() ? count : drawn_ + not_drawn_;
    }
    sync();
    return next();
  }
  __device__ uint64_t next() const { return shared_.next[number_]; }
  __device__ uint64_t before() const { return shared_.drawn[kStoreRoles]; }  // chunks, all launches
  // The awaited data is there.
  __device__ void start() {
    if (t == 0) drawn_ = atomicAdd(reinterpret_cast<unsigned long long*>(ticket_), 1ull);
    sync();
    if constexpr (kCounting)
      if (t == 0) count_together(number_);
  }
  __device__ void end() {
    if (t == 0) shared_.next[number_] = has_failed() ? count : drawn_ + not_drawn_;
    sync();
  }
  // Until `word` is above `above`, or the wait is aborted: then what follows is not made known,
  // and the groups end.
  __device__ void wait(const uint64_t* word, uint64_t above, int peer, WaitSide side) {
    WaitLimit<kCounting> limit;
    for (uint64_t seen; (seen = load_acquire(word)) <= above;)
      if (limit.over(x, Protocol::simple, peer, side, seen, above + 1)) {
        atomicExch(&shared_.failed, 1u);
        return;
      }
    if (peer != x.memory.rank) limit.join(number_, peer, side);
  }
  // Until the slot of `number` is free.
  __device__ void wait_slot(const uint64_t* taken, uint64_t number, int peer) {
    const uint32_t slots = x.layout.slots;
    if (number >= slots) wait(taken + slot(number), number - slots, peer, WaitSide::send);
  }
  __device__ uint32_t slot(uint64_t number) const {
    return uint32_t(number) & (x.layout.slots - 1);
  }
  __device__ bool has_failed() const { return atomicOr(&shared_.failed, 0u) != 0; }
  // This thread's peer, -1: none. One thread looks after each.
  __device__ int peer() const { return t < x.memory.nranks - 1 ? x.peer(t) : -1; }
  // The number of chunk c between this rank and a peer.
  __device__ uint64_t number(Count count, int peer, uint64_t c) const {
    return shared_.first[place_of(peer, x.memory.rank, x.memory.nranks)][count] + c;
  }

 private:
  __device__ void sync() const { group_sync<kGroupThreads>(number_); }
  StoreShared& shared_;
  const int number_;
  const uint64_t first_;
  uint64_t* const ticket_;
  const uint64_t not_drawn_;  // a ticket and this make a chunk
  uint64_t drawn_ = 0;
};

// A slot of `reader` for what `writer` gives it.
__device__ inline uint8_t* slot_of(const Exchange& x, uint64_t region, int reader, int writer,
                                   uint64_t number) {
  const uint64_t place = place_of(writer, reader, x.memory.nranks);
  const uint64_t slot = number & (x.layout.slots - 1);
  return x.part(reader) + region + (place * x.layout.slots + slot) * kSlotBytes;
}
// The counts beside the slots, of one pair of ranks.
__device__ inline uint64_t* counts_of(const Exchange& x, uint64_t region, int owner, int other) {
  const uint64_t place = place_of(other, owner, x.memory.nranks);
  return reinterpret_cast<uint64_t*>(x.part(owner) + region) + place * x.layout.slots;
}

// The begin and the end of a launch. Each block keeps all counts for itself, and writes those of
// every block that has its number modulo the grid: launches with other grids find them.
template <bool kCounting>
__device__ inline void begin_store(const Exchange& x, StoreShared& shared) {
  if (threadIdx.x == 0) shared.failed = 0;
  if (threadIdx.x <= kStoreRoles) shared.drawn[threadIdx.x] = x.own_block().drawn[threadIdx.x];
  for (int i = int(threadIdx.x); i < (x.memory.nranks - 1) * kCounts; i += int(blockDim.x))
    shared.first[i / kCounts][i % kCounts] = x.own_block().peers[i / kCounts].count[i % kCounts];
  if constexpr (kCounting) begin_waits(x);
  __syncthreads();
}
// `adds(peer, count)`: by how much a count of a peer has grown; `draws(role)`: how often a role's
// groups have asked for a ticket.
template <bool kCounting, class Adds, class Draws>
__device__ void end_counts(const Exchange& x, const StoreShared& shared, uint64_t chunks, Adds adds,
                           Draws draws) {
  __syncthreads();
  const int others = x.memory.nranks - 1;
  for (int b = int(blockIdx.x); b < kWindowBlocks; b += int(gridDim.x)) {
    OwnBlock& block = x.own_block(b);
    if (threadIdx.x <= kStoreRoles)
      block.drawn[threadIdx.x] =
          shared.drawn[threadIdx.x] +
          (threadIdx.x == kStoreRoles ? chunks : draws(StoreRole(threadIdx.x)));
    for (int i = int(threadIdx.x); i < others * kCounts; i += int(blockDim.x)) {
      const int k = i / kCounts, count = i % kCounts;
      const int peer = (x.memory.rank + 1 + k) % x.memory.nranks;
      block.peers[k].count[count] = shared.first[k][count] + adds(peer, Count(count));
    }
  }
  if constexpr (kCounting) end_waits(x, 1, gridDim.x);
}
// Ends an operation of all ranks. `has(peer, count)`: whether a count of chunks has grown by the
// operation's.
template <bool kCounting, class Has, class Draws>
__device__ void end_store(const Exchange& x, const StoreShared& shared, uint64_t chunks,
                          uint64_t epoch, Has has, Draws draws) {
  end_counts<kCounting>(
      x, shared, chunks,
      [&](int peer, Count count) -> uint64_t {
        return count <= kResultReceived && has(peer, count) ? chunks : 0;
      },
      draws);
  end_epoch(x, epoch);
}

}  // namespace collctl::kernels::cuda
