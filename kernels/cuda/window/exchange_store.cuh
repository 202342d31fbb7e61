// One-shot on a GPU by store, for large sizes: chunks in slots of the receiver, counts beside them
// (store.cuh). Two groups of a block give, one takes: while one waits for its fence the
// other keeps the link busy. Oracle: algo/one_shot.h.
#pragma once
#include "kernels/cuda/window/two_shot_store.cuh"

namespace collctl::kernels::cuda {

// Into users' memory.
struct EmitOutput {
  uint8_t* to;
  __device__ void pack(uint32_t at, const uint4& v) const {
    plain(*reinterpret_cast<uint4*>(to + at)) = v;
  }
  __device__ void word(uint32_t at, uint64_t w, uint64_t have) const {
    store_word(to + at, int64_t(have), w);
  }
};

// For an operation in which a place of the output is a place of what is given (all-reduce): each
// chunk goes to all peers in one turn, so that takers can wait until it was read.
template <bool kVec, bool kCounting>
__device__ void push_chunks(Group<kCounting>& group, const Chunks& chunks) {
  const Exchange& x = group.x;
  const int others = x.memory.nranks - 1, me = x.memory.rank, t = group.t;
  const int mine = group.peer();
  const bool gives = mine >= 0 && x.gives(mine);
  const uint64_t before = group.before();
  for (uint64_t c = group.first(); c < chunks.count; c = group.next()) {
    const uint64_t number = gives ? group.number(kSent, mine, c) : 0;
    if (gives) group.wait_slot(counts_of(x, x.layout.taken, me, mine), number, mine);
    group.start();
    for (int k = 0; k < others; ++k) {
      const int p = x.peer(k);
      if (!x.gives(p)) continue;
      copy_bytes<kVec, false>(x.input + chunks.at(c),
                              slot_of(x, x.layout.stage, p, me, group.number(kSent, p, c)),
                              chunks.size(c), t);
    }
    group.end();
    if (gives && !group.has_failed())
      store_release(counts_of(x, x.layout.arrived, mine, me) + group.slot(number), number + 1);
    // The reads are over: nothing that was written needs to be seen before this.
    if (t == kGroupThreads - 1)
      store_volatile(&x.store().given[group.slot(before + c)], before + c + 1);
  }
}
// The blocks of all other operations, as push_slices() wants them.
struct Blocks {
  uint64_t stride, bytes;
  __device__ uint64_t first(int peer) const { return uint64_t(peer) * stride; }
  __device__ uint64_t size(int) const { return bytes; }
};

template <WordKind kKind, bool kVec, bool kCounting>
__device__ void sum_chunks(Group<kCounting>& group, const Chunks& chunks, bool whole,
                           uint64_t from) {
  const Exchange& x = group.x;
  const int me = x.memory.rank, t = group.t;
  const int mine = group.peer();
  const bool takes = mine >= 0 && x.takes(mine);
  const uint64_t before = group.before();
  for (uint64_t c = from; c < chunks.count; c = group.next()) {
    const uint64_t at = chunks.at(c);
    const uint64_t number = takes ? group.number(kReceived, mine, c) : 0;
    if (takes)
      group.wait(counts_of(x, x.layout.arrived, me, mine) + group.slot(number), number, mine,
                 WaitSide::recv);
    // In place: what is written here must have been given away before.
    if (whole && t == kGroupThreads - 1 && x.gives_to != Peers::none)
      group.wait(&x.store().given[group.slot(before + c)], before + c, me, WaitSide::send);
    group.start();
    reduce_staged<kKind, kVec>(
        x, x.input + x.reduce_own + at,
        [&](int p) { return slot_of(x, x.layout.stage, me, p, group.number(kReceived, p, c)); },
        chunks.size(c), t, EmitOutput{x.output + at});
    group.end();
    // The staged chunk has been used by now: the loads are over, and nothing else was written.
    if (takes && !group.has_failed())
      store_volatile(counts_of(x, x.layout.taken, mine, me) + group.slot(number), number + 1);
  }
}

// Puts what arrived into place, a chunk of one peer a turn, and of every chunk the own one last.
template <bool kVec, bool kCounting>
__device__ void take_chunks(Group<kCounting>& group, const Chunks& chunks, uint64_t from) {
  const Exchange& x = group.x;
  const int me = x.memory.rank;
  for (uint64_t turn = from; turn < group.count; turn = group.next()) {
    const auto [c, p] = peer_turn(x, x.takes_from, turn, x.copy_own);
    const uint64_t at = chunks.at(c);
    const uint32_t n = chunks.size(c);
    if (p < 0) {
      group.start();
      copy_bytes<kVec, false>(x.input + x.own_in + at, x.output + x.own_out + at, n, group.t);
      group.end();
      continue;
    }
    const bool mine = group.peer() == p;
    const uint64_t number = group.number(kReceived, p, c);
    if (mine)
      group.wait(counts_of(x, x.layout.arrived, me, p) + group.slot(number), number, p,
                 WaitSide::recv);
    group.start();
    copy_bytes<kVec, true>(slot_of(x, x.layout.stage, me, p, number),
                           x.output + p * x.out_stride + at, n, group.t);
    group.end();
    if (mine && !group.has_failed())
      store_volatile(counts_of(x, x.layout.taken, p, me) + group.slot(number), number + 1);
  }
}

template <WordKind kKind, bool kVec, bool kCounting>
__global__ void __launch_bounds__(kStoreThreads)
    exchange_store(const __grid_constant__ Exchange x, const uint32_t chunk_bytes) {
  COLL_BLOCK_SHARED(StoreShared, shared);
  begin_launch([&] { fetch_arguments(x); });
  const uint64_t epoch = x.epochs()[blockIdx.x] + 1;
  announce(x, epoch);
  begin_store<kCounting>(x, shared);
  const Chunks chunks(x.bytes, chunk_bytes);
  constexpr bool kCopies = kKind == WordKind::copy;
  const bool whole = !kCopies && x.in_stride == 0;
  const bool gives = x.gives_to != Peers::none;
  const bool takes = x.takes_from != Peers::none || x.copy_own;
  const uint64_t give_turns = chunks.count * (whole ? gives : count_of(x, x.gives_to));
  const uint64_t take_turns =
      chunks.count * (kCopies ? count_of(x, x.takes_from) + x.copy_own : takes);
  constexpr int kGivers = 2;
  const int number = int(threadIdx.x) / kGroupThreads;
  const auto take = [&](Group<kCounting>& group, uint64_t from) {
    if constexpr (kCopies)
      take_chunks<kVec>(group, chunks, from);
    else
      sum_chunks<kKind, kVec>(group, chunks, whole, from);
  };
  if (number < kGivers) {
    if (gives) {
      Group<kCounting> group(x, shared, give_turns, StoreRole::give, number, kGivers);
      bool done = false;
      if constexpr (!kCopies) {
        if (whole) push_chunks<kVec>(group, chunks);
        done = whole;
      }
      if (!done) push_slices<kVec>(group, Blocks{x.in_stride, x.bytes}, chunks);
    }
    if (gives && takes) {  // what is left to take at the end is not left to one group
      Group<kCounting> group(x, shared, take_turns, StoreRole::take, 0, 1);
      take(group, group.join());
    }
  } else {
    Group<kCounting> group(x, shared, take_turns, StoreRole::take, 0, 1);
    if (takes) take(group, group.first());
  }
  await_peers<kCounting>(x, Protocol::simple, epoch);
  end_store<kCounting>(
      x, shared, chunks.count, epoch,
      [&](int peer, Count count) {
        return (count == kSent && x.gives(peer)) || (count == kReceived && x.takes(peer));
      },
      [&](StoreRole role) -> uint64_t {
        if (role == StoreRole::give) return give_turns;
        if (role != StoreRole::take || !takes) return 0;
        return take_turns + (gives ? kGivers * gridDim.x : 0);
      });
}

}  // namespace collctl::kernels::cuda
