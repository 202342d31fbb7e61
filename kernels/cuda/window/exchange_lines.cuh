// One-shot on a GPU by lines, for small and middle sizes: every rank gives each peer its bytes
// directly, data and flags together, and assembles what it gets. Oracle: algo/one_shot.h.
#pragma once
#include "kernels/cuda/window/lines.cuh"

namespace collctl::kernels::cuda {

inline constexpr int kLineThreads = 512;

// Units of one warp: every stride-th from the first, kCount at a time so that as many loads are in
// flight; one where a warp has no more than one. A warp writes only where it has read its input
// before, so an operation in place is right. kPeers: with so many peers at a time, for small
// operations: what is in flight together takes as long as one; in larger ones it is too much.
// kWords: of whole aligned words (UserUnits). kWaits: counts them (WaitLimit).
template <class Protocol, int kCount, int kPeers, bool kWords, bool kWaits>
struct Batch {
  using L = Protocol;
  using User = UserUnits<L, kWords>;
  static constexpr int kUnits = kCount, kAtOnce = kPeers;
  static constexpr bool kCounting = kWaits;
  uint32_t first, stride;  // in units
  __device__ Batch() {
    const uint32_t warps = blockDim.x / 32;
    first = blockIdx.x * warps + threadIdx.x / 32;
    stride = gridDim.x * warps;
  }
  __device__ uint32_t unit(uint32_t turn, int i) const {
    return first + (turn * kUnits + i) * stride;
  }
  // Turns until all of `units` are done.
  __device__ uint32_t turns(uint32_t units) const {
    const uint32_t mine = units > first ? (units - first + stride - 1) / stride : 0;
    return (mine + kUnits - 1) / kUnits;
  }
};

// A batch out of a user's buffer, and into one: of `units` that begin at `begin`.
template <class B>
__device__ __forceinline__ void load_units(const typename B::User& from, uint32_t begin,
                                           const B& batch, uint32_t turn, uint32_t units, int lane,
                                           LaneData (&d)[B::kUnits]) {
#pragma unroll
  for (int i = 0; i < B::kUnits; ++i)
    if (const uint32_t u = batch.unit(turn, i); u < units) from.load(begin + u, lane, d[i]);
}
template <class B>
__device__ __forceinline__ void store_units(const typename B::User& to, uint32_t begin,
                                            const B& batch, uint32_t turn, uint32_t units, int lane,
                                            const LaneData (&d)[B::kUnits]) {
#pragma unroll
  for (int i = 0; i < B::kUnits; ++i)
    if (const uint32_t u = batch.unit(turn, i); u < units) to.store(begin + u, lane, d[i]);
}
// A batch as lines.
template <class B>
__device__ __forceinline__ void store_lines(uint8_t* lines, const B& batch, uint32_t turn,
                                            uint32_t units, int lane, uint64_t epoch,
                                            const LaneData (&d)[B::kUnits]) {
#pragma unroll
  for (int i = 0; i < B::kUnits; ++i)
    if (const uint32_t u = batch.unit(turn, i); u < units)
      B::L::store(lines + uint64_t(u) * 512, lane, d[i], epoch);
}

// Gives each peer a batch out of the input: slice_of(peer) has which units.
struct Slice {
  uint32_t begin, units;
};
template <class B, class SliceOf>
__device__ __forceinline__ void give_batch(const Exchange& x, const B& batch, uint32_t turn,
                                           int lane, uint64_t epoch, SliceOf slice_of) {
  using L = typename B::L;
#pragma unroll 1
  for (int first = 0; first < x.memory.nranks - 1; first += B::kAtOnce) {
    LaneData d[B::kAtOnce][B::kUnits];
    const auto each_peer = [&](auto what) {
#pragma unroll
      for (int k = 0; k < B::kAtOnce; ++k)
        if (const int p = x.peer(first + k); first + k < x.memory.nranks - 1 && x.gives(p))
          what(p, slice_of(p), d[k]);
    };
    each_peer([&](int p, const Slice& slice, LaneData(&to)[B::kUnits]) {
      const typename B::User input(x.input + p * x.in_stride, x.bytes);
      load_units(input, slice.begin, batch, turn, slice.units, lane, to);
    });
    each_peer([&](int p, const Slice& slice, const LaneData(&from)[B::kUnits]) {
      store_lines(bank_of<L>(x, p, x.memory.rank, epoch), batch, turn, slice.units, lane, epoch,
                  from);
    });
  }
}

// The own block is put into place after what is given: no rank waits for it, and where all get the
// same it is at hand.
template <class B, WordKind kKind>
__device__ __forceinline__ void give_lines(const Exchange& x, const B& batch, uint32_t turn,
                                           uint32_t units, int lane, uint64_t epoch) {
  using L = typename B::L;
  LaneData d[B::kUnits];
  bool loaded = false;
#pragma unroll 1
  for (int k = 0; k < x.memory.nranks - 1; ++k) {
    const int p = x.peer(k);
    if (!x.gives(p)) continue;
    if (!loaded || x.in_stride != 0)
      load_units(typename B::User(x.input + p * x.in_stride, x.bytes), 0, batch, turn, units, lane,
                 d);
    loaded = true;
    store_lines(bank_of<L>(x, p, x.memory.rank, epoch), batch, turn, units, lane, epoch, d);
  }
  if constexpr (kKind == WordKind::copy) {
    if (!x.copy_own) return;
    if (!loaded || x.in_stride != 0)
      load_units(typename B::User(x.input + x.own_in, x.bytes), 0, batch, turn, units, lane, d);
    store_units(typename B::User(x.output + x.own_out, x.bytes), 0, batch, turn, units, lane, d);
  }
}

// A peer's contribution: lines of so many units; none: nothing.
struct Source {
  const uint8_t* lines;
  uint32_t units;
};

// A batch of units from some peers, the whole warp together. `peer_of(p)`: their ranks. False:
// aborted.
template <class B, class PeerOf>
__device__ __forceinline__ bool wait_batch(const Exchange& x, const Source (&from)[B::kAtOnce],
                                           const B& batch, uint32_t turn, int lane, uint64_t epoch,
                                           PeerOf peer_of, LaneData (&d)[B::kAtOnce][B::kUnits]) {
  using L = typename B::L;
  const auto each_unit = [&](int p, auto what) {
#pragma unroll
    for (int i = 0; i < B::kUnits; ++i)
      if (const uint32_t u = batch.unit(turn, i); u < from[p].units)
        what(from[p].lines + uint64_t(u) * 512, d[p][i]);
  };
  WaitLimit<B::kCounting> limit;
  int late = 0;
  while (true) {
    uint32_t missing = 0;  // one bit a peer
#pragma unroll
    for (int p = 0; p < B::kAtOnce; ++p)
      each_unit(p, [&](const uint8_t* unit, LaneData& to) {
        missing |= uint32_t(!L::load(unit, lane, to, epoch)) << p;
      });
    if (!__any_sync(~0u, missing != 0)) break;
    late = 0;
#pragma unroll
    for (int p = B::kAtOnce - 1; p > 0; --p)
      if (!__any_sync(~0u, missing & ((1u << p) - 1)) && late == 0) late = p;
    const bool over = limit.over(x, L::kId, peer_of(late), WaitSide::recv, epoch - 1, epoch);
    if (__any_sync(~0u, over)) return false;
  }
  if (lane == 0) limit.count(peer_of(late), WaitSide::recv);
#pragma unroll
  for (int p = 0; p < B::kAtOnce; ++p)
    each_unit(p, [&](const uint8_t* unit, LaneData& to) { L::settle(unit, lane, to); });
  return true;
}

// Adds up a batch over all ranks, in their order.
template <class B, WordKind kKind>
__device__ __forceinline__ bool sum_batch(const Exchange& x, const typename B::User& own,
                                          uint32_t own_begin, const B& batch, uint32_t turn,
                                          uint32_t units, int lane, uint64_t epoch,
                                          LaneData (&out)[B::kUnits]) {
  using L = typename B::L;
  constexpr int kUnits = B::kUnits;
  LaneData mine[kUnits];
  load_units(own, own_begin, batch, turn, units, lane, mine);
  WordSum<kKind> sum[kUnits][L::kLaneWords];
#pragma unroll 1
  for (int first = 0; first < x.memory.nranks; first += B::kAtOnce) {
    LaneData d[B::kAtOnce][kUnits];
    Source from[B::kAtOnce];
#pragma unroll
    for (int p = 0; p < B::kAtOnce; ++p) {
      const int r = first + p;
      from[p] = {nullptr, 0};
      if (r < x.memory.nranks && r != x.memory.rank)
        from[p] = {bank_of<L>(x, x.memory.rank, r, epoch), units};
    }
    if (!wait_batch<B>(
            x, from, batch, turn, lane, epoch, [&](int p) { return first + p; }, d))
      return false;
#pragma unroll
    for (int p = 0; p < B::kAtOnce; ++p) {
      const int r = first + p;
      if (r >= x.memory.nranks) break;
      if (r == x.memory.rank)
#pragma unroll
        for (int i = 0; i < kUnits; ++i) d[p][i] = mine[i];
#pragma unroll
      for (int i = 0; i < kUnits; ++i)
#pragma unroll
        for (int w = 0; w < L::kLaneWords; ++w)
          r == 0 ? sum[i][w].first(d[p][i].word[w], x.ops) : sum[i][w].add(d[p][i].word[w], x.ops);
    }
  }
#pragma unroll
  for (int i = 0; i < kUnits; ++i)
#pragma unroll
    for (int w = 0; w < L::kLaneWords; ++w) out[i].word[w] = sum[i][w].result(x.ops);
  return true;
}

// A batch of what every peer gives, source(peer): put(peer, units, data).
template <class B, class SourceOf, class Put>
__device__ __forceinline__ bool take_batch(const Exchange& x, const B& batch, uint32_t turn,
                                           int lane, uint64_t epoch, SourceOf source, Put put) {
#pragma unroll 1
  for (int first = 0; first < x.memory.nranks - 1; first += B::kAtOnce) {
    LaneData d[B::kAtOnce][B::kUnits];
    Source from[B::kAtOnce];
#pragma unroll
    for (int p = 0; p < B::kAtOnce; ++p) {
      from[p] = {nullptr, 0};
      if (first + p < x.memory.nranks - 1) from[p] = source(x.peer(first + p));
    }
    if (!wait_batch<B>(
            x, from, batch, turn, lane, epoch, [&](int p) { return x.peer(first + p); }, d))
      return false;
#pragma unroll
    for (int p = 0; p < B::kAtOnce; ++p)
      if (from[p].units > 0) put(x.peer(first + p), from[p].units, d[p]);
  }
  return true;
}

template <class B, WordKind kKind>
__device__ __forceinline__ bool take_lines(const Exchange& x, const B& batch, uint32_t turn,
                                           uint32_t units, int lane, uint64_t epoch) {
  using L = typename B::L;
  if constexpr (kKind != WordKind::copy) {
    LaneData d[B::kUnits];
    const typename B::User own(x.input + x.reduce_own, x.bytes), output(x.output, x.bytes);
    if (!sum_batch<B, kKind>(x, own, 0, batch, turn, units, lane, epoch, d)) return false;
    store_units(output, 0, batch, turn, units, lane, d);
    return true;
  } else {
    return take_batch<B>(
        x, batch, turn, lane, epoch,
        [&](int p) -> Source {
          return {bank_of<L>(x, x.memory.rank, p, epoch), x.takes(p) ? units : 0};
        },
        [&](int p, uint32_t, const LaneData(&d)[B::kUnits]) {
          const typename B::User output(x.output + p * x.out_stride, x.bytes);
          store_units(output, 0, batch, turn, units, lane, d);
        });
  }
}

template <class B, WordKind kKind>
__global__ void __launch_bounds__(kLineThreads) exchange_lines(const __grid_constant__ Exchange x) {
  using L = typename B::L;
  begin_lines<B::kCounting>(x);
  const uint64_t epoch = x.epochs()[blockIdx.x] + 1;
  announce(x, epoch);
  const int lane = int(threadIdx.x) % 32;
  const uint32_t units = units_of<L>(x.bytes);
  const B batch;
  const uint32_t turns = batch.turns(units);
  // Giving is a turn ahead of taking.
  for (uint32_t turn = 0; turn <= turns; ++turn) {
    if (turn < turns && (x.gives_to != Peers::none || x.copy_own))
      give_lines<B, kKind>(x, batch, turn, units, lane, epoch);
    if (turn > 0 && x.takes_from != Peers::none &&
        !take_lines<B, kKind>(x, batch, turn - 1, units, lane, epoch))
      break;
  }
  await_peers<B::kCounting>(x, L::kId, epoch, turns > 0);
  end_lines<B::kCounting>(x, epoch, units);
}

}  // namespace collctl::kernels::cuda
