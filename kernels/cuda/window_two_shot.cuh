// Two-shot all-reduce on a GPU: every rank adds up its own slice from what the others push to it,
// and pushes the sum to all. Less on the wire than one-shot from three ranks on. By lines for
// middle sizes, by store (pipelined chunks in slots) for large ones. Oracle: algo/two_shot.h.
#pragma once
#include "kernels/cuda/window_exchange_lines.cuh"

namespace collctl::kernels::cuda {

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
  return take_batch<B>(
      x, batch, turn, lane, epoch,
      [&](int p) -> Source {
        return {bank_of<L>(x, x.memory.rank, p, epoch) + slices.results() * 512, slices.size(p)};
      },
      [&](int p, uint64_t u, const LaneData& one) {
        store_lane<L>(x.output, x.bytes, slices.first(p) + u, lane, one);
      });
}

template <class B, WordKind kKind>
__global__ void __launch_bounds__(kLineThreads) two_shot_lines(const __grid_constant__ Exchange x) {
  using L = typename B::L;
  begin_launch(x);
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

}  // namespace collctl::kernels::cuda
