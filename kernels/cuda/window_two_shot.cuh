// Two-shot all-reduce on a GPU: every rank adds up its own slice from what the others push to it,
// and pushes the sum to all. Less on the wire than one-shot from three ranks on. By lines for
// middle sizes, by store (pipelined chunks in slots) for large ones. Oracle: algo/two_shot.h.
#pragma once
#include "kernels/cuda/window_exchange_lines.cuh"
#include "kernels/cuda/window_exchange_store.cuh"

namespace collctl::kernels::cuda {

// Groups that give, add up and take, and two warps that post.
inline constexpr int kTwoShotThreads = 3 * kGroupThreads + 64;

// Slices in units: the first ones are a unit longer.
template <class L>
struct LineSlices {
  uint64_t units, each, longer;
  __device__ LineSlices(uint64_t bytes, int nranks)
      : units(units_of<L>(bytes)), each(units / nranks), longer(units % nranks) {}
  __device__ uint64_t first(int r) const { return r * each + (r < int(longer) ? r : longer); }
  __device__ uint64_t size(int r) const { return each + (r < int(longer) ? 1 : 0); }
  // Results lie behind the contributions in the same bank.
  __device__ uint64_t results() const { return each + 1; }
};

// The contributions to peers' slices, one batch to each peer.
template <class B>
__device__ __forceinline__ void give_slices(const Exchange& x,
                                            const LineSlices<typename B::L>& slices, const B& batch,
                                            uint64_t turn, int lane, uint64_t epoch) {
  using L = typename B::L;
  constexpr int kUnits = B::kUnits;
  for (int k = 0; k < x.memory.nranks - 1; ++k) {
    const int p = x.peer(k);
    const uint64_t units = slices.size(p);
    LaneData d[kUnits];
#pragma unroll
    for (int i = 0; i < kUnits; ++i)
      if (const uint64_t u = batch.unit(turn, i); u < units)
        d[i] = load_lane<L>(x.input, x.bytes, slices.first(p) + u, lane);
    uint8_t* bank = bank_of<L>(x, p, x.memory.rank, epoch);
#pragma unroll
    for (int i = 0; i < kUnits; ++i)
      if (const uint64_t u = batch.unit(turn, i); u < units)
        L::store(bank + u * 512, lane, d[i], epoch);
  }
}

template <class B, WordKind kKind>
__device__ __forceinline__ bool sum_slice(const Exchange& x,
                                          const LineSlices<typename B::L>& slices, const B& batch,
                                          uint64_t turn, int lane, uint64_t epoch) {
  using L = typename B::L;
  constexpr int kUnits = B::kUnits;
  const int me = x.memory.rank;
  const uint64_t units = slices.size(me);
  LaneData out[kUnits];
  if (!sum_batch<B, kKind>(x, x.input, x.bytes, slices.first(me), batch, turn, units, lane, epoch,
                           out))
    return false;
  for (int k = 0; k < x.memory.nranks - 1; ++k) {
    uint8_t* bank = bank_of<L>(x, x.peer(k), me, epoch) + slices.results() * 512;
#pragma unroll
    for (int i = 0; i < kUnits; ++i)
      if (const uint64_t u = batch.unit(turn, i); u < units)
        L::store(bank + u * 512, lane, out[i], epoch);
  }
#pragma unroll
  for (int i = 0; i < kUnits; ++i)
    if (const uint64_t u = batch.unit(turn, i); u < units)
      store_lane<L>(x.output, x.bytes, slices.first(me) + u, lane, out[i]);
  return true;
}

template <class B>
__device__ __forceinline__ bool take_slices(const Exchange& x,
                                            const LineSlices<typename B::L>& slices, const B& batch,
                                            uint64_t turn, int lane, uint64_t epoch) {
  using L = typename B::L;
  constexpr int kUnits = B::kUnits;
  for (int k = 0; k < x.memory.nranks - 1; ++k) {
    const int p = x.peer(k);
    const uint64_t units = slices.size(p);
    const uint8_t* bank = bank_of<L>(x, x.memory.rank, p, epoch) + slices.results() * 512;
    LaneData d[kUnits];
    if (!wait_batch<B>(x, bank, batch, turn, units, lane, epoch, p, d)) return false;
#pragma unroll
    for (int i = 0; i < kUnits; ++i)
      if (const uint64_t u = batch.unit(turn, i); u < units)
        store_lane<L>(x.output, x.bytes, slices.first(p) + u, lane, d[i]);
  }
  return true;
}

template <class B, WordKind kKind>
__global__ void __launch_bounds__(kLineThreads) two_shot_lines(const __grid_constant__ Exchange x) {
  using L = typename B::L;
  begin_launch();
  const uint64_t epoch = x.epochs()[blockIdx.x] + 1;
  const int lane = int(threadIdx.x) % 32;
  const LineSlices<L> slices(x.bytes, x.memory.nranks);
  const B batch;
  // Slices are equal but for one unit; what is beyond a shorter one is nothing.
  const uint64_t turns = batch.turns(slices.each + (slices.longer > 0 ? 1 : 0));
  for (uint64_t turn = 0; turn < turns + 2; ++turn) {
    if (turn < turns) give_slices<B>(x, slices, batch, turn, lane, epoch);
    if (turn >= 1 && turn <= turns && !sum_slice<B, kKind>(x, slices, batch, turn - 1, lane, epoch))
      break;
    if (turn >= 2 && !take_slices<B>(x, slices, batch, turn - 2, lane, epoch)) break;
  }
  end_epoch(x, epoch);
}

// --- by store ---------------------------------------------------------------------------------

// Sums go into the own output and into a slot of every peer.
struct EmitResult {
  uint8_t* to;
  const Exchange& x;
  uint64_t number;
  __device__ uint8_t* peer_slot(int k) const {
    return slot_of(x, x.layout.results, x.peer(k), x.memory.rank, number);
  }
  __device__ void pack(uint32_t at, const uint4& v) const {
    *reinterpret_cast<uint4*>(to + at) = v;
    for (int k = 0; k < x.memory.nranks - 1; ++k) *reinterpret_cast<uint4*>(peer_slot(k) + at) = v;
  }
  __device__ void word(uint32_t at, uint64_t w, uint64_t have) const {
    store_word(to + at, int64_t(have), w);
    for (int k = 0; k < x.memory.nranks - 1; ++k)
      *reinterpret_cast<uint64_t*>(peer_slot(k) + at) = w;
  }
};

// The slice of each rank, and of it this block's part.
struct SlicePart {
  uint64_t slice, at, bytes, chunks;
  uint32_t chunk_bytes;
  __device__ SlicePart(const Exchange& x, const Cut& cut, int owner)
      : chunk_bytes(cut.chunk_bytes) {
    slice = align_up((x.bytes + x.memory.nranks - 1) / x.memory.nranks, 16);
    const uint64_t from = slice * owner;
    const uint64_t whole = from >= x.bytes ? 0 : x.bytes - from < slice ? x.bytes - from : slice;
    const uint64_t skip = blockIdx.x * cut.part_bytes;
    at = from + skip;
    bytes = skip >= whole ? 0 : whole - skip < cut.part_bytes ? whole - skip : cut.part_bytes;
    const uint64_t full = skip >= slice                   ? 0
                          : slice - skip < cut.part_bytes ? slice - skip
                                                          : cut.part_bytes;
    chunks = (full + chunk_bytes - 1) / chunk_bytes;  // the same for all slices, empty or not
  }
  __device__ uint32_t size(uint64_t c) const {
    const uint64_t done = c * chunk_bytes;
    if (done >= bytes) return 0;
    return bytes - done < chunk_bytes ? uint32_t(bytes - done) : chunk_bytes;
  }
};

// What the groups of a block tell each other.
struct TwoShotShared {
  uint64_t posted[2];  // chunks that were made known: contributions, sums
  int failed;
};

// Named barriers: a group's own, and two for each poster, used in turn.
inline constexpr int kPushBarrier = 1, kSumBarrier = 2, kTakeBarrier = 3;
inline constexpr int kPushPosts = 4, kSumPosts = 6;
__device__ __forceinline__ void arrive_for_poster(int barrier, uint64_t c) {
  __syncwarp();
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier + int(c & 1)), "n"(kGroupThreads + 32)
               : "memory");
}
__device__ __forceinline__ void wait_for_group(int barrier, uint64_t c) {
  __syncwarp();
  asm volatile("bar.sync %0, %1;" ::"r"(barrier + int(c & 1)), "n"(kGroupThreads + 32) : "memory");
}
// With two barriers a group may be two chunks ahead of its poster. The poster itself waits for
// nobody else, so this ends.
__device__ __forceinline__ void wait_poster(const volatile uint64_t& posted, uint64_t c) {
  while (posted + 2 <= c) __nanosleep(20);
}

// Gives the contributions to peers' slices. After a failure the groups only go through their
// barriers: nobody may be left standing at one.
template <bool kVec>
__device__ void push_slices(const Exchange& x, const Cut& cut, uint64_t chunks, int t,
                            volatile TwoShotShared& shared) {
  const int others = x.memory.nranks - 1, me = x.memory.rank, block = int(blockIdx.x);
  const int mine = t < others ? x.peer(t) : -1;
  for (uint64_t c = 0; c < chunks; ++c) {
    if (mine >= 0)
      wait_slot(x, &x.counters(me, mine, block)->taken, x.own(mine, block)->sent + c, mine,
                shared.failed);
    if (t == 0) wait_poster(shared.posted[0], c);
    group_sync(kPushBarrier);
    for (int k = 0; k < others && !shared.failed; ++k) {
      const int p = x.peer(k);
      const SlicePart part(x, cut, p);
      copy_bytes<kVec>(x.input + part.at + c * part.chunk_bytes,
                       slot_of(x, x.layout.stage, p, me, x.own(p, block)->sent + c), part.size(c),
                       t);
    }
    arrive_for_poster(kPushPosts, c);
  }
}

// Adds up the own slice and gives the sums to all.
template <WordKind kKind, bool kVec>
__device__ void sum_slices(const Exchange& x, const Cut& cut, uint64_t chunks, int t,
                           volatile TwoShotShared& shared) {
  const int others = x.memory.nranks - 1, me = x.memory.rank, block = int(blockIdx.x);
  const int mine = t < others ? x.peer(t) : -1;
  for (uint64_t c = 0; c < chunks; ++c) {
    if (mine >= 0) {
      const PeerCounters* heard = x.counters(me, mine, block);
      const uint64_t number = x.own(mine, block)->received + c;
      wait_counter(x, &heard->arrived[number & 1], number, mine, WaitSide::recv, shared.failed);
      wait_slot(x, &heard->result_taken, x.own(mine, block)->result_sent + c, mine, shared.failed);
    }
    if (t == 0) wait_poster(shared.posted[1], c);
    group_sync(kSumBarrier);
    if (!shared.failed) {
      const SlicePart part(x, cut, me);
      const uint64_t at = part.at + c * part.chunk_bytes;
      // Results have one count for all peers: they all get every chunk.
      const EmitResult emit{x.output + at, x, x.own(x.peer(0), block)->result_sent + c};
      reduce_staged<kKind, kVec>(
          x, x.input + at,
          [&](int p) { return slot_of(x, x.layout.stage, me, p, x.own(p, block)->received + c); },
          part.size(c), t, emit);
    }
    arrive_for_poster(kSumPosts, c);
  }
}

// Puts the others' sums into place.
template <bool kVec>
__device__ void take_slices(const Exchange& x, const Cut& cut, uint64_t chunks, int t,
                            volatile TwoShotShared& shared) {
  const int others = x.memory.nranks - 1, me = x.memory.rank, block = int(blockIdx.x);
  const int mine = t < others ? x.peer(t) : -1;
  for (uint64_t c = 0; c < chunks; ++c) {
    const uint64_t number = mine >= 0 ? x.own(mine, block)->result_received + c : 0;
    if (mine >= 0)
      wait_counter(x, &x.counters(me, mine, block)->result_arrived, number, mine, WaitSide::recv,
                   shared.failed);
    group_sync(kTakeBarrier);
    for (int k = 0; k < others && !shared.failed; ++k) {
      const int p = x.peer(k);
      const SlicePart part(x, cut, p);
      copy_staged<kVec>(slot_of(x, x.layout.results, me, p, x.own(p, block)->result_received + c),
                        x.output + part.at + c * part.chunk_bytes, part.size(c), t);
    }
    group_sync(kTakeBarrier);
    if (mine >= 0 && !shared.failed)
      store_volatile(&x.counters(mine, me, block)->result_taken, number + 1);
  }
}

// A warp that makes known what a group has stored, behind its back: the group need not stand still
// while the fence waits for the link.
__device__ inline void post_slices(const Exchange& x, uint64_t chunks, bool sums, int lane,
                                   volatile TwoShotShared& shared) {
  const int others = x.memory.nranks - 1, me = x.memory.rank, block = int(blockIdx.x);
  for (uint64_t c = 0; c < chunks; ++c) {
    wait_for_group(sums ? kSumPosts : kPushPosts, c);
    for (int k = lane; k < others && !shared.failed; k += 32) {
      const int p = x.peer(k);
      PeerCounters* told = x.counters(p, me, block);
      const OwnCounters* own = x.own(p, block);
      if (sums) {
        store_release(&told->result_arrived, own->result_sent + c + 1);
        store_volatile(&told->taken, own->received + c + 1);
      } else {
        const uint64_t number = own->sent + c;
        store_release(&told->arrived[number & 1], number + 1);
      }
    }
    __syncwarp();
    if (lane == 0) shared.posted[sums ? 1 : 0] = c + 1;
  }
}

template <WordKind kKind, bool kVec>
__global__ void __launch_bounds__(kTwoShotThreads)
    two_shot_store(const __grid_constant__ Exchange x, const Cut cut) {
  __shared__ TwoShotShared shared;
  if (threadIdx.x == 0) shared = {};
  __syncthreads();
  begin_launch();
  const uint64_t epoch = x.epochs()[blockIdx.x] + 1;
  const uint64_t chunks = SlicePart(x, cut, x.memory.rank).chunks;
  const int group = int(threadIdx.x) / kGroupThreads, t = int(threadIdx.x) % kGroupThreads;
  if (group == 0)
    push_slices<kVec>(x, cut, chunks, t, shared);
  else if (group == 1)
    sum_slices<kKind, kVec>(x, cut, chunks, t, shared);
  else if (group == 2)
    take_slices<kVec>(x, cut, chunks, t, shared);
  else
    post_slices(x, chunks, t >= 32, t % 32, shared);
  __syncthreads();
  if (int(threadIdx.x) < x.memory.nranks - 1) {
    OwnCounters* counts = x.own(x.peer(int(threadIdx.x)), int(blockIdx.x));
    counts->sent += chunks;
    counts->received += chunks;
    counts->result_sent += chunks;
    counts->result_received += chunks;
  }
  end_epoch(x, epoch);
}

}  // namespace collctl::kernels::cuda
