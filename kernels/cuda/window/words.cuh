// One-shot all-reduce of whole, aligned words by LL: the sums of the smallest operations, where a
// tenth of a microsecond shows. A lane moves one word; nothing else is looked at. Banks, lines and
// epochs as in exchange_lines.cuh, which serves everything else and is its oracle, as
// algo/one_shot.h is of both.
#pragma once
#include "kernels/cuda/window/exchange_lines.cuh"

namespace collctl::kernels::cuda {

// Out of line: who waits long does not mind, and what the others run stays short.
template <bool kCounting>
static __device__ __noinline__ bool word_must_abort(const Exchange& x, WaitLimit<kCounting>& limit,
                                                    int peer, uint64_t epoch) {
  return limit.over(x, Protocol::ll, peer, WaitSide::recv, epoch - 1, epoch);
}

// The first lane counts for its warp.
template <WordKind kKind, bool kCounting>
__global__ void __launch_bounds__(kLineThreads) sum_words(const __grid_constant__ Exchange x) {
  using L = Lines<Protocol::ll>;
  constexpr int kAtOnce = 4;
  begin_lines<kCounting>(x);
  const uint32_t word = blockIdx.x * blockDim.x + threadIdx.x;
  const bool has = word < uint32_t(x.bytes) / 8;
  LaneData mine{{0, 0}};
  if (has) mine.word[0] = load_volatile(reinterpret_cast<const uint64_t*>(x.input) + word);
  const uint64_t epoch = x.epochs()[blockIdx.x] + 1;
  const int n = x.memory.nranks, me = x.memory.rank;
  bool failed = false;
  // Peers whose buffers lie otherwise look at whole units, so all of the last one's lines are
  // given.
  if (word < units_of<L>(x.bytes) * L::kUnitWords)
#pragma unroll 1
    for (int k = 0; k < n - 1; ++k)
      L::store(bank_of<L>(x, x.peer(k), me, epoch), int(word), mine, epoch);
  if (has) {
    WordSum<kKind> sum;
#pragma unroll 1
    for (int first = 0; first < n && !failed; first += kAtOnce) {
      LaneData d[kAtOnce];
      WaitLimit<kCounting> limit;
      int last = 0;
      // The lane's lines of four ranks are in flight together.
      for (int late = 0; late >= 0 && !failed;) {
        late = -1;
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
          const int r = first + i;
          if (r < n && r != me && !L::load(bank_of<L>(x, me, r, epoch), int(word), d[i], epoch))
            late = r;
        }
        if (late >= 0) failed = word_must_abort(x, limit, last = late, epoch);
      }
      if (threadIdx.x % kWarp == 0) limit.count(last, WaitSide::recv);
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int r = first + i;
        if (r >= n) break;
        const uint64_t w = r == me ? mine.word[0] : d[i].word[0];
        r == 0 ? sum.first(w, x.ops) : sum.add(w, x.ops);
      }
    }
    if (!failed) reinterpret_cast<uint64_t*>(x.output)[word] = sum.result(x.ops);
  }
  end_lines<kCounting>(x, epoch, units_of<L>(x.bytes));
}

}  // namespace collctl::kernels::cuda
