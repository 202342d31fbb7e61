// One-shot on a GPU by lines, for small and middle sizes: every rank gives each peer its bytes
// straight, data and news together, and puts together what it gets. Oracle: algo/one_shot.h.
#pragma once
#include "kernels/cuda/window_lines.cuh"

namespace collctl::kernels::cuda {

inline constexpr int kLineThreads = 512;

// Units of one warp: every stride-th from the first, kCount at a time so that as many loads are on
// their way; one where a warp has no more than one. What a warp writes it has read before as input,
// so an operation in place is right. kPeers: from so many peers at a time, for small operations:
// looks that are under way together take as long as one; of larger ones they are too many.
template <class Protocol, int kCount, int kPeers>
struct Batch {
  using L = Protocol;
  static constexpr int kUnits = kCount, kAtOnce = kPeers;
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
  __device__ uint32_t turns(uint64_t units) const {
    // 32 bits: a bank has fewer units, and a division of 64 takes a tenth of a small operation.
    const uint32_t left = units > first ? uint32_t(units - first) : 0, by = uint32_t(stride);
    const uint32_t mine = left > by ? (left + by - 1) / by : left > 0;
    return (mine + kUnits - 1) / kUnits;
  }
};

template <class B>
__device__ __forceinline__ void give_lines(const Exchange& x, const B& batch, uint64_t turn,
                                           uint64_t units, int lane, uint64_t epoch) {
  using L = typename B::L;
  constexpr int kUnits = B::kUnits;
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

// What a peer gives: lines of so many units; none: nothing.
struct Source {
  const uint8_t* lines;
  uint64_t units;
};

// A batch of units from some peers, the whole warp together. `peer_of(p)`: their ranks. False:
// given up.
template <class B, class PeerOf>
__device__ __forceinline__ bool wait_batch(const Exchange& x, const Source (&from)[B::kAtOnce],
                                           const B& batch, uint64_t turn, int lane, uint64_t epoch,
                                           PeerOf peer_of, LaneData (&d)[B::kAtOnce][B::kUnits]) {
  using L = typename B::L;
  const auto each_unit = [&](int p, auto what) {
#pragma unroll
    for (int i = 0; i < B::kUnits; ++i)
      if (const uint64_t u = batch.unit(turn, i); u < from[p].units)
        what(from[p].lines + u * 512, d[p][i]);
  };
  Patience patience;
  while (true) {
    uint32_t missing = 0;  // one bit a peer
#pragma unroll
    for (int p = 0; p < B::kAtOnce; ++p)
      each_unit(p, [&](const uint8_t* unit, LaneData& to) {
        missing |= uint32_t(!L::load(unit, lane, to, epoch)) << p;
      });
    if (!__any_sync(~0u, missing != 0)) break;
    int late = 0;
#pragma unroll
    for (int p = B::kAtOnce - 1; p > 0; --p)
      if (!__any_sync(~0u, missing & ((1u << p) - 1)) && late == 0) late = p;
    const bool over = patience.over(x, L::kId, peer_of(late), WaitSide::recv, epoch - 1, epoch);
    if (__any_sync(~0u, over)) return false;
  }
#pragma unroll
  for (int p = 0; p < B::kAtOnce; ++p)
    each_unit(p, [&](const uint8_t* unit, LaneData& to) { L::settle(unit, lane, to); });
  return true;
}

// Adds up a batch over all ranks, in their order.
template <class B, WordKind kKind>
__device__ __forceinline__ bool sum_batch(const Exchange& x, const uint8_t* own, uint64_t own_bytes,
                                          uint64_t own_first, const B& batch, uint64_t turn,
                                          uint64_t units, int lane, uint64_t epoch,
                                          LaneData (&out)[B::kUnits]) {
  using L = typename B::L;
  constexpr int kUnits = B::kUnits;
  LaneData mine[kUnits];
#pragma unroll
  for (int i = 0; i < kUnits; ++i)
    if (const uint64_t u = batch.unit(turn, i); u < units)
      mine[i] = load_lane<L>(own, own_bytes, own_first + u, lane);
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

// A batch of what every peer gives, source(peer): put(peer, unit, data).
template <class B, class SourceOf, class Put>
__device__ __forceinline__ bool take_batch(const Exchange& x, const B& batch, uint64_t turn,
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
#pragma unroll
      for (int i = 0; i < B::kUnits; ++i)
        if (const uint64_t u = batch.unit(turn, i); u < from[p].units)
          put(x.peer(first + p), u, d[p][i]);
  }
  return true;
}

template <class B, WordKind kKind>
__device__ __forceinline__ bool take_lines(const Exchange& x, const B& batch, uint64_t turn,
                                           uint64_t units, int lane, uint64_t epoch) {
  using L = typename B::L;
  if constexpr (kKind != WordKind::copy) {
    constexpr int kUnits = B::kUnits;
    LaneData d[kUnits];
    if (!sum_batch<B, kKind>(x, x.input + x.reduce_own, x.bytes, 0, batch, turn, units, lane, epoch,
                             d))
      return false;
#pragma unroll
    for (int i = 0; i < kUnits; ++i)
      if (const uint64_t u = batch.unit(turn, i); u < units)
        store_lane<L>(x.output, x.bytes, u, lane, d[i]);
    return true;
  } else {
    return take_batch<B>(
        x, batch, turn, lane, epoch,
        [&](int p) -> Source {
          return {bank_of<L>(x, x.memory.rank, p, epoch), x.takes(p) ? units : 0};
        },
        [&](int p, uint64_t u, const LaneData& one) {
          store_lane<L>(x.output + p * x.out_stride, x.bytes, u, lane, one);
        });
  }
}

template <class B, WordKind kKind>
__global__ void __launch_bounds__(kLineThreads) exchange_lines(const __grid_constant__ Exchange x) {
  using L = typename B::L;
  begin_launch(x);
  const uint64_t epoch = x.epochs()[blockIdx.x] + 1;
  come(x, epoch);
  const int lane = int(threadIdx.x) % 32;
  const uint64_t units = units_of<L>(x.bytes);
  const B batch;
  const uint64_t turns = batch.turns(units);
  // Giving is a turn ahead of taking.
  for (uint64_t turn = 0; turn <= turns; ++turn) {
    if (turn < turns && x.gives_to != Peers::none)
      give_lines<B>(x, batch, turn, units, lane, epoch);
    if (turn > 0 && x.takes_from != Peers::none &&
        !take_lines<B, kKind>(x, batch, turn - 1, units, lane, epoch))
      break;
  }
  if (x.copy_own)
    for (uint64_t u = batch.first; u < units; u += batch.stride)
      store_lane<L>(x.output + x.own_out, x.bytes, u, lane,
                    load_lane<L>(x.input + x.own_in, x.bytes, u, lane));
  meet(x, L::kId, epoch);
  end_epoch(x, epoch);
}

}  // namespace collctl::kernels::cuda
