// Broadcast by store among three ranks or more: the root deals a slice to each receiver, which
// forwards it to the other receivers while it arrives, so that every byte leaves the root once and
// no rank sends more. Chunks, slots and counts as in store.cuh; slices arrive through the
// slots of contributions, what is forwarded through those of results. Oracle: algo/one_shot.h.
#pragma once
#include "kernels/cuda/window/two_shot_store.cuh"

namespace collctl::kernels::cuda {

// The slice of each receiver, counted from the root's next rank on; the last ones may be shorter.
struct DealtSlices {
  uint64_t each, bytes;
  int root, nranks;
  __device__ explicit DealtSlices(const Exchange& x)
      : each(align_up((x.bytes + x.memory.nranks - 2) / (x.memory.nranks - 1), 16)),
        bytes(x.bytes),
        root(x.root),
        nranks(x.memory.nranks) {}
  __device__ uint64_t first(int receiver) const {
    return uint64_t(place_of(receiver, root, nranks)) * each;
  }
  __device__ uint64_t size(int receiver) const {
    const uint64_t from = first(receiver);
    return from >= bytes ? 0 : bytes - from < each ? bytes - from : each;
  }
};

// The root's, where its output is not its input.
template <bool kVec, bool kCounting>
__device__ void keep_slices(Group<kCounting>& group, const DealtSlices& slices,
                            const Chunks& chunks) {
  const Exchange& x = group.x;
  for (uint64_t c = group.first(); c < group.count; c = group.next()) {
    group.start();
    for (int k = 0; k < x.memory.nranks - 1; ++k) {
      const uint64_t at = slices.first(x.peer(k)) + chunks.at(c);
      copy_bytes<kVec, false>(x.input + at, x.output + at, chunks.size(c, slices.size(x.peer(k))),
                              group.t);
    }
    group.end();
  }
}

// A receiver's own slice, out of the root's slots: into its output and to the other receivers.
// `to`: where each peer k wants this chunk, in shared memory, null for the root.
template <bool kVec, bool kCounting>
__device__ void hand_on(Group<kCounting>& group, const DealtSlices& slices, const Chunks& chunks,
                        uint8_t** to) {
  const Exchange& x = group.x;
  const int me = x.memory.rank, mine = group.peer(), others = x.memory.nranks - 1;
  const bool hears = mine == x.root, tells = mine >= 0 && !hears;
  for (uint64_t c = group.first(); c < group.count; c = group.next()) {
    const uint64_t next_in = group.number(kReceived, x.root, c);
    const uint64_t goes = tells ? group.number(kResultSent, mine, c) : 0;
    if (hears)
      group.wait(counts_of(x, x.layout.arrived, me, mine) + group.slot(next_in), next_in, mine,
                 WaitSide::recv);
    if (tells) group.wait_slot(counts_of(x, x.layout.result_taken, me, mine), goes, mine);
    if (mine >= 0) to[group.t] = tells ? slot_of(x, x.layout.results, mine, me, goes) : nullptr;
    group.start();
    const uint8_t* const slot = slot_of(x, x.layout.stage, me, x.root, next_in);
    uint8_t* const out = x.output + slices.first(me) + chunks.at(c);
    const uint32_t n = chunks.size(c, slices.size(me));
    uint32_t done = 0;
    if constexpr (kVec) {
      constexpr uint32_t kUnroll = 4;
      const uint32_t packs = n / 16;
      for (uint32_t p = group.t; p < packs; p += kUnroll * kGroupThreads) {
        uint4 v[kUnroll];
#pragma unroll
        for (uint32_t i = 0; i < kUnroll; ++i)
          if (p + i * kGroupThreads < packs)
            v[i] = load_staged(slot + 16 * (p + i * kGroupThreads));
        const auto store_at = [&](uint8_t* place) {
#pragma unroll
          for (uint32_t i = 0; i < kUnroll; ++i)
            if (p + i * kGroupThreads < packs)
              plain(reinterpret_cast<uint4*>(place)[p + i * kGroupThreads]) = v[i];
        };
#pragma unroll 1
        for (int k = 0; k < others; ++k)
          if (to[k] != nullptr) store_at(to[k]);
        store_at(out);
      }
      done = packs * 16;
    }
    for (uint32_t w = done + group.t * 8; w < n; w += kGroupThreads * 8) {
      const uint64_t word = load_volatile(reinterpret_cast<const uint64_t*>(slot + w));
      for (int k = 0; k < others; ++k)
        if (to[k] != nullptr) plain(*reinterpret_cast<uint64_t*>(to[k] + w)) = word;
      store_word(out + w, n - w, word);
    }
    group.end();
    if (group.has_failed()) continue;
    if (tells)
      store_release(counts_of(x, x.layout.result_arrived, mine, me) + group.slot(goes), goes + 1);
    // The loads are over: what they loaded has been stored.
    if (hears)
      store_volatile(counts_of(x, x.layout.taken, mine, me) + group.slot(next_in), next_in + 1);
  }
}

// A receiver's: the slices of the other receivers, a chunk of one of them a turn; those of the root
// have nothing in them.
template <bool kVec, bool kCounting>
__device__ void take_handed(Group<kCounting>& group, const DealtSlices& slices,
                            const Chunks& chunks) {
  const Exchange& x = group.x;
  const int me = x.memory.rank;
  for (uint64_t turn = group.first(); turn < group.count; turn = group.next()) {
    const auto [c, p] = peer_turn(x, Peers::all, turn);
    const bool mine = group.peer() == p && p != x.root;
    const uint64_t number = p == x.root ? 0 : group.number(kResultReceived, p, c);
    if (mine)
      group.wait(counts_of(x, x.layout.result_arrived, me, p) + group.slot(number), number, p,
                 WaitSide::recv);
    group.start();
    if (p != x.root)
      copy_bytes<kVec, true>(slot_of(x, x.layout.results, me, p, number),
                             x.output + slices.first(p) + chunks.at(c),
                             chunks.size(c, slices.size(p)), group.t);
    group.end();
    if (mine && !group.has_failed())
      store_volatile(counts_of(x, x.layout.result_taken, p, me) + group.slot(number), number + 1);
  }
}

template <bool kVec, bool kCounting>
__global__ void __launch_bounds__(kStoreThreads)
    broadcast_store(const __grid_constant__ Exchange x, const uint32_t chunk_bytes) {
  constexpr int kMovers = 2;  // groups of a block that use the links
  COLL_BLOCK_SHARED(StoreShared, shared);
  using Places = uint8_t* [kMovers][kMostPeers];
  COLL_BLOCK_SHARED(Places, to);
  begin_launch([&] { fetch_arguments(x); });
  const uint64_t epoch = x.epochs()[blockIdx.x] + 1;
  announce(x, epoch);
  begin_store<kCounting>(x, shared);
  const DealtSlices slices(x);
  const Chunks chunks(slices.each, chunk_bytes);
  const bool is_root = x.memory.rank == x.root;
  const int number = int(threadIdx.x) / kGroupThreads;
  const uint64_t each_peer = chunks.count * (x.memory.nranks - 1);
  const auto turns = [&](StoreRole role) -> uint64_t {
    if (role == StoreRole::give) return is_root ? each_peer : 0;
    if (role == StoreRole::sum) return is_root ? 0 : chunks.count;
    return !is_root ? each_peer : x.copy_own ? chunks.count : 0;
  };
  const auto role = number == kMovers ? StoreRole::take
                    : is_root         ? StoreRole::give
                                      : StoreRole::sum;
  Group<kCounting> group(x, shared, turns(role), role, number % kMovers,
                         number == kMovers ? 1 : kMovers);
  if (role == StoreRole::give)
    push_slices<kVec>(group, slices, chunks);
  else if (role == StoreRole::sum)
    hand_on<kVec>(group, slices, chunks, to[number]);
  else if (is_root)
    keep_slices<kVec>(group, slices, chunks);
  else
    take_handed<kVec>(group, slices, chunks);
  await_peers<kCounting>(x, Protocol::simple, epoch);
  end_store<kCounting>(
      x, shared, chunks.count, epoch,
      [&](int peer, Count count) {
        if (is_root) return count == kSent;
        return peer == x.root ? count == kReceived
                              : count == kResultSent || count == kResultReceived;
      },
      turns);
}

}  // namespace collctl::kernels::cuda
