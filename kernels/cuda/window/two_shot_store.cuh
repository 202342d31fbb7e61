// Two-shot all-reduce by store: chunks of every slice go to its owner, who adds them up and gives
// the sums to all (store.cuh). A group of a block for each of the three roles. Oracle:
// algo/two_shot.h.
#pragma once
#include "kernels/cuda/window/store.cuh"

namespace collctl::kernels::cuda {

// The slice of each rank: all but the last ones are equally long.
struct Slices {
  uint64_t each, bytes;
  __device__ explicit Slices(const Exchange& x)
      : each(align_up((x.bytes + x.memory.nranks - 1) / x.memory.nranks, 16)), bytes(x.bytes) {}
  __device__ uint64_t first(int owner) const { return owner * each; }
  __device__ uint64_t size(int owner) const {
    const uint64_t from = first(owner);
    return from >= bytes ? 0 : bytes - from < each ? bytes - from : each;
  }
};

// Sums go into the own output and into a slot of every peer.
struct EmitResult {
  uint8_t* to;
  uint8_t* const* slots;  // of the peers, in shared memory
  int others;
  __device__ void pack(uint32_t at, const uint4& v) const {
    plain(*reinterpret_cast<uint4*>(to + at)) = v;
    for (int k = 0; k < others; ++k) plain(*reinterpret_cast<uint4*>(slots[k] + at)) = v;
  }
  __device__ void word(uint32_t at, uint64_t w, uint64_t have) const {
    store_word(to + at, int64_t(have), w);
    for (int k = 0; k < others; ++k) plain(*reinterpret_cast<uint64_t*>(slots[k] + at)) = w;
  }
};

// Gives peers their slices of the input, a chunk of one peer a turn: so the first ones arrive
// early. SlicesOf: first(peer), size(peer).
template <bool kVec, bool kCounting, class SlicesOf>
__device__ void push_slices(Group<kCounting>& group, const SlicesOf& slices, const Chunks& chunks) {
  const Exchange& x = group.x;
  const int me = x.memory.rank;
  for (uint64_t turn = group.first(); turn < group.count; turn = group.next()) {
    const auto [c, p] = peer_turn(x, x.gives_to, turn);
    const bool mine = group.peer() == p;
    const uint64_t number = group.number(kSent, p, c);
    if (mine) group.wait_slot(counts_of(x, x.layout.taken, me, p), number, p);
    group.start();
    copy_bytes<kVec, false>(x.input + slices.first(p) + chunks.at(c),
                            slot_of(x, x.layout.stage, p, me, number),
                            chunks.size(c, slices.size(p)), group.t);
    group.end();
    if (mine && !group.has_failed())
      store_release(counts_of(x, x.layout.arrived, p, me) + group.slot(number), number + 1);
  }
}

// Adds up the own slice and gives the sums to all. `slots`: room for a place of each peer, in
// shared memory.
template <WordKind kKind, bool kVec, bool kCounting>
__device__ void sum_slices(Group<kCounting>& group, const Slices& slices, const Chunks& chunks,
                           uint8_t** slots, uint64_t from) {
  const Exchange& x = group.x;
  const int me = x.memory.rank, mine = group.peer();
  for (uint64_t c = from; c < chunks.count; c = group.next()) {
    const uint64_t next_in = mine >= 0 ? group.number(kReceived, mine, c) : 0;
    const uint64_t goes = mine >= 0 ? group.number(kResultSent, mine, c) : 0;
    if (mine >= 0) {
      group.wait(counts_of(x, x.layout.arrived, me, mine) + group.slot(next_in), next_in, mine,
                 WaitSide::recv);
      group.wait_slot(counts_of(x, x.layout.result_taken, me, mine), goes, mine);
      slots[group.t] = slot_of(x, x.layout.results, mine, me, goes);
    }
    group.start();
    const uint64_t at = slices.first(me) + chunks.at(c);
    const EmitResult emit{x.output + at, slots, x.memory.nranks - 1};
    reduce_staged<kKind, kVec>(
        x, x.input + at,
        [&](int p) { return slot_of(x, x.layout.stage, me, p, group.number(kReceived, p, c)); },
        chunks.size(c, slices.size(me)), group.t, emit);
    group.end();
    if (mine >= 0 && !group.has_failed()) {
      store_release(counts_of(x, x.layout.result_arrived, mine, me) + group.slot(goes), goes + 1);
      store_volatile(counts_of(x, x.layout.taken, mine, me) + group.slot(next_in), next_in + 1);
    }
  }
}

// Puts the others' sums into place, a chunk of one peer a turn.
template <bool kVec, bool kCounting>
__device__ void take_slices(Group<kCounting>& group, const Slices& slices, const Chunks& chunks,
                            uint64_t from) {
  const Exchange& x = group.x;
  const int me = x.memory.rank;
  for (uint64_t turn = from; turn < group.count; turn = group.next()) {
    const auto [c, p] = peer_turn(x, x.takes_from, turn);
    const bool mine = group.peer() == p;
    const uint64_t number = group.number(kResultReceived, p, c);
    if (mine)
      group.wait(counts_of(x, x.layout.result_arrived, me, p) + group.slot(number), number, p,
                 WaitSide::recv);
    group.start();
    copy_bytes<kVec, true>(slot_of(x, x.layout.results, me, p, number),
                           x.output + slices.first(p) + chunks.at(c),
                           chunks.size(c, slices.size(p)), group.t);
    group.end();
    if (mine && !group.has_failed())
      store_volatile(counts_of(x, x.layout.result_taken, p, me) + group.slot(number), number + 1);
  }
}

template <WordKind kKind, bool kVec, bool kCounting>
__global__ void __launch_bounds__(kStoreThreads)
    two_shot_store(const __grid_constant__ Exchange x, const uint32_t chunk_bytes) {
  COLL_BLOCK_SHARED(StoreShared, shared);
  using Places = uint8_t* [2][kMostPeers];
  COLL_BLOCK_SHARED(Places, slots);
  begin_launch([&] { fetch_arguments(x); });
  const uint64_t epoch = x.epochs()[blockIdx.x] + 1;
  begin_store<kCounting>(x, shared);
  const Slices slices(x);
  const Chunks chunks(slices.each, chunk_bytes);
  const auto role = StoreRole(threadIdx.x / kGroupThreads);
  const auto turns = [&](StoreRole of) {
    return of == StoreRole::sum ? chunks.count : chunks.count * (x.memory.nranks - 1);
  };
  // Work of a later role that is left at the end is not left to one group of a block: a group that
  // has nothing more to give helps to add up, and then to take.
  if (role == StoreRole::give) {
    Group<kCounting> group(x, shared, turns(role), role, 0, 1);
    push_slices<kVec>(group, slices, chunks);
  }
  if (role != StoreRole::take) {
    const bool joins = role == StoreRole::give;
    Group<kCounting> group(x, shared, turns(StoreRole::sum), StoreRole::sum, 0, 1);
    sum_slices<kKind, kVec>(group, slices, chunks, slots[joins],
                            joins ? group.join() : group.first());
  }
  Group<kCounting> group(x, shared, turns(StoreRole::take), StoreRole::take, 0, 1);
  take_slices<kVec>(group, slices, chunks, role == StoreRole::take ? group.first() : group.join());
  end_store<kCounting>(
      x, shared, chunks.count, epoch, [](int, Count) { return true; },
      [&](StoreRole of) { return turns(of) + uint64_t(of) * gridDim.x; });
}

}  // namespace collctl::kernels::cuda
