// Broadcast by lines among three ranks or more, for middle sizes: as by store
// (broadcast_store.cuh), the root deals a slice to each receiver, which forwards it to the
// other receivers. Slices lie in the sender's bank, what is handed on behind them, as two-shot's
// results do. Oracle: algo/one_shot.h.
#pragma once
#include "kernels/cuda/window/two_shot.cuh"

namespace collctl::kernels::cuda {

// Slices in units, of the receivers counted from the root's next rank on.
template <class L>
struct DealtLines {
  uint32_t each, longer;
  int root, nranks;
  __device__ explicit DealtLines(const Exchange& x)
      : each(units_of<L>(x.bytes) / uint32_t(x.memory.nranks - 1)),
        longer(units_of<L>(x.bytes) % uint32_t(x.memory.nranks - 1)),
        root(x.root),
        nranks(x.memory.nranks) {}
  __device__ uint32_t place(int receiver) const {
    return uint32_t(place_of(receiver, root, nranks));
  }
  __device__ uint32_t first(int receiver) const {
    const uint32_t i = place(receiver);
    return i * each + (i < longer ? i : longer);
  }
  __device__ uint32_t size(int receiver) const { return each + (place(receiver) < longer ? 1 : 0); }
  __device__ uint32_t most() const { return each + (longer > 0 ? 1 : 0); }
  // Where what is handed on begins in a bank.
  __device__ uint64_t handed() const { return uint64_t(each + 1) * 512; }
};

// The root's.
template <class B>
__device__ __forceinline__ void deal_lines(const Exchange& x,
                                           const DealtLines<typename B::L>& slices, const B& batch,
                                           uint32_t turn, int lane, uint64_t epoch) {
  using L = typename B::L;
  const typename B::User input(x.input, x.bytes), output(x.output, x.bytes);
#pragma unroll 1
  for (int k = 0; k < x.memory.nranks - 1; ++k) {
    const int p = x.peer(k);
    const uint32_t units = slices.size(p);
    LaneData d[B::kUnits];
    load_units(input, slices.first(p), batch, turn, units, lane, d);
    store_lines(bank_of<L>(x, p, x.memory.rank, epoch), batch, turn, units, lane, epoch, d);
    if (x.copy_own) store_units(output, slices.first(p), batch, turn, units, lane, d);
  }
}

// A receiver's own slice. False: aborted.
template <class B>
__device__ __forceinline__ bool hand_on_lines(const Exchange& x,
                                              const DealtLines<typename B::L>& slices,
                                              const B& batch, uint32_t turn, int lane,
                                              uint64_t epoch) {
  using L = typename B::L;
  const int me = x.memory.rank;
  const uint32_t units = slices.size(me);
  Source from[B::kAtOnce];
#pragma unroll
  for (int p = 0; p < B::kAtOnce; ++p) from[p] = {nullptr, 0};
  from[0] = {bank_of<L>(x, me, x.root, epoch), units};
  LaneData d[B::kAtOnce][B::kUnits];
  if (!wait_batch<B>(
          x, from, batch, turn, lane, epoch, [&](int) { return x.root; }, d))
    return false;
#pragma unroll 1
  for (int k = 0; k < x.memory.nranks - 1; ++k) {
    if (x.peer(k) == x.root) continue;
    store_lines(bank_of<L>(x, x.peer(k), me, epoch) + slices.handed(), batch, turn, units, lane,
                epoch, d[0]);
  }
  const typename B::User output(x.output, x.bytes);
  store_units(output, slices.first(me), batch, turn, units, lane, d[0]);
  return true;
}

template <class B>
__global__ void __launch_bounds__(kLineThreads)
    broadcast_lines(const __grid_constant__ Exchange x) {
  using L = typename B::L;
  begin_lines<B::kCounting>(x);
  const uint64_t epoch = x.epochs()[blockIdx.x] + 1;
  announce(x, epoch);
  const int lane = int(threadIdx.x) % 32;
  const DealtLines<L> slices(x);
  const B batch;
  const uint32_t turns = batch.turns(slices.most());
  const int me = x.memory.rank;
  if (me == x.root) {
    for (uint32_t turn = 0; turn < turns; ++turn)
      deal_lines<B>(x, slices, batch, turn, lane, epoch);
  } else {
    const typename B::User output(x.output, x.bytes);
    // Handing on is a turn ahead of taking.
    for (uint32_t turn = 0; turn <= turns; ++turn) {
      if (turn < turns && !hand_on_lines<B>(x, slices, batch, turn, lane, epoch)) break;
      if (turn == 0) continue;
      const bool took = take_batch<B>(
          x, batch, turn - 1, lane, epoch,
          [&](int p) -> Source {
            return {bank_of<L>(x, me, p, epoch) + slices.handed(),
                    p == x.root ? 0 : slices.size(p)};
          },
          [&](int p, uint32_t units, const LaneData(&d)[B::kUnits]) {
            store_units(output, slices.first(p), batch, turn - 1, units, lane, d);
          });
      if (!took) break;
    }
  }
  await_peers<B::kCounting>(x, L::kId, epoch);
  end_lines<B::kCounting>(x, epoch, slices.most());
}

}  // namespace collctl::kernels::cuda
