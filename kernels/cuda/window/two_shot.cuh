// Two-shot all-reduce on a GPU: every rank adds up its own slice from what the others push to it,
// and pushes the sum to all. Less on the wire than one-shot from three ranks on. By lines for
// middle sizes, by store (pipelined chunks in slots) for large ones. Oracle: algo/two_shot.h.
#pragma once
#include "kernels/cuda/window/exchange_lines.cuh"

namespace collctl::kernels::cuda {

// Slices in units: the first ones are a unit longer.
template <class L>
struct UnitSlices {
  uint32_t units, each, longer;
  __device__ UnitSlices(uint64_t bytes, int nranks)
      : units(units_of<L>(bytes)), each(units / uint32_t(nranks)), longer(units % nranks) {}
  __device__ uint32_t first(int r) const {
    return uint32_t(r) * each + (uint32_t(r) < longer ? uint32_t(r) : longer);
  }
  __device__ uint32_t size(int r) const { return each + (uint32_t(r) < longer ? 1 : 0); }
  // Results lie behind the contributions in the same bank.
  __device__ uint64_t results() const { return uint64_t(each + 1) * 512; }
};

template <class B, WordKind kKind>
__device__ __forceinline__ bool sum_slice(const Exchange& x,
                                          const UnitSlices<typename B::L>& slices, const B& batch,
                                          uint32_t turn, int lane, uint64_t epoch) {
  using L = typename B::L;
  const int me = x.memory.rank;
  const uint32_t units = slices.size(me), begin = slices.first(me);
  const typename B::User input(x.input, x.bytes), output(x.output, x.bytes);
  LaneData sums[B::kUnits];
  if (!sum_batch<B, kKind>(x, input, begin, batch, turn, units, lane, epoch, sums)) return false;
  for (int k = 0; k < x.memory.nranks - 1; ++k)
    store_lines(bank_of<L>(x, x.peer(k), me, epoch) + slices.results(), batch, turn, units, lane,
                epoch, sums);
  store_units(output, begin, batch, turn, units, lane, sums);
  return true;
}

template <class B>
__device__ __forceinline__ bool take_slices(const Exchange& x,
                                            const UnitSlices<typename B::L>& slices, const B& batch,
                                            uint32_t turn, int lane, uint64_t epoch) {
  using L = typename B::L;
  const typename B::User output(x.output, x.bytes);
  return take_batch<B>(
      x, batch, turn, lane, epoch,
      [&](int p) -> Source {
        return {bank_of<L>(x, x.memory.rank, p, epoch) + slices.results(), slices.size(p)};
      },
      [&](int p, uint32_t units, const LaneData(&d)[B::kUnits]) {
        store_units(output, slices.first(p), batch, turn, units, lane, d);
      });
}

template <class B, WordKind kKind>
__global__ void __launch_bounds__(kLineThreads) two_shot_lines(const __grid_constant__ Exchange x) {
  using L = typename B::L;
  begin_lines<B::kCounting>(x);
  const uint64_t epoch = x.epochs()[blockIdx.x] + 1;
  const int lane = int(threadIdx.x) % 32;
  const UnitSlices<L> slices(x.bytes, x.memory.nranks);
  const B batch;
  // Slices are equal but for one unit; what is beyond a shorter one is nothing.
  const uint32_t most = slices.each + (slices.longer > 0 ? 1 : 0);
  const uint32_t turns = batch.turns(most);
  for (uint32_t turn = 0; turn < turns + 2; ++turn) {
    if (turn < turns)
      give_batch(x, batch, turn, lane, epoch, [&](int p) -> Slice {
        return {slices.first(p), slices.size(p)};
      });
    if (turn >= 1 && turn <= turns && !sum_slice<B, kKind>(x, slices, batch, turn - 1, lane, epoch))
      break;
    if (turn >= 2 && !take_slices<B>(x, slices, batch, turn - 2, lane, epoch)) break;
  }
  end_lines<B::kCounting>(x, epoch, most);
}

}  // namespace collctl::kernels::cuda
