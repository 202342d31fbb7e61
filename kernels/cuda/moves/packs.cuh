// How moves of protocol Simple move: a thread takes one or two packs of 16 bytes at a time,
// whatever their alignment. `a`: MoveArguments (moves.cuh). Larger slices have loops of their own
// (verbs/simple_loops.cuh).
#pragma once
#include "kernels/cuda/lanes.cuh"
#include "kernels/cuda/memory.cuh"

namespace collctl::kernels::cuda {

struct MovePacks {
  // first, + step, ... of `bytes`.
  template <int kUnroll>
  static __device__ __forceinline__ void load(const uint8_t* from, uint64_t bytes, uint64_t first,
                                              uint64_t step, Pack (&value)[kUnroll]) {
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const uint64_t at = first + u * step;
      value[u] = {{0, 0}};
      if (at < bytes) value[u] = load_part(from + at, int64_t(bytes - at));
    }
  }
  template <int kUnroll>
  static __device__ __forceinline__ void store(uint8_t* to, uint64_t bytes, uint64_t first,
                                               uint64_t step, const Pack (&value)[kUnroll]) {
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const uint64_t at = first + u * step;
      if (at < bytes) store_part(to + at, int64_t(bytes - at), value[u]);
    }
  }
  template <int kUnroll, class Arguments>
  static __device__ __forceinline__ void write(const Arguments& a, uint64_t first, uint64_t step,
                                               const Pack (&value)[kUnroll]) {
#pragma unroll 1
    for (int t = 0; t < a.out_count; ++t) store(a.target(t), a.bytes, first, step, value);
    if (a.out != nullptr) store(a.out, a.bytes, first, step, value);
  }

  // From the one source, or else from `in`.
  struct Copy {
    static constexpr int kUnroll = 2;
    template <class Arguments>
    static __device__ __forceinline__ void move(const Arguments& a) {
      const uint64_t step = uint64_t(a.count) * sizeof(Pack);
      const uint8_t* const from = a.in != nullptr ? a.in : a.source(0);
#pragma unroll 1
      for (uint64_t at = uint64_t(a.index) * sizeof(Pack); at < a.bytes; at += kUnroll * step) {
        Pack value[kUnroll];
        load(from, a.bytes, at, step, value);
        write(a, at, step, value);
      }
    }
  };

  // `in`, then every source in turn.
  template <DataType kType, RedOp kOp>
  struct Reduce {
    // Sums matter most: one for the others, for the sake of compile time and size.
    static constexpr int kUnroll = kOp == RedOp::sum ? 2 : 1;
    template <class Arguments>
    static __device__ __noinline__ void run(const Arguments& given) {
      const Arguments a = given;
      const uint64_t step = uint64_t(a.count) * sizeof(Pack);
#pragma unroll 1
      for (uint64_t at = uint64_t(a.index) * sizeof(Pack); at < a.bytes; at += kUnroll * step) {
        Pack value[kUnroll];
        Lanes<kType> sum[kUnroll][2];
        load(a.in, a.bytes, at, step, value);
#pragma unroll
        for (int u = 0; u < kUnroll; ++u)
#pragma unroll
          for (int w = 0; w < 2; ++w) sum[u][w] = unpack<kType>(value[u].word[w]);
#pragma unroll 1
        for (int i = 0; i < a.in_count; ++i) {
          load(a.source(i), a.bytes, at, step, value);
#pragma unroll
          for (int u = 0; u < kUnroll; ++u)
#pragma unroll
            for (int w = 0; w < 2; ++w)
              combine<kType, kOp>(sum[u][w], unpack<kType>(value[u].word[w]));
        }
#pragma unroll
        for (int u = 0; u < kUnroll; ++u)
#pragma unroll
          for (int w = 0; w < 2; ++w)
            value[u].word[w] = pack_finished<kType, kOp>(sum[u][w], a.finish);
        write(a, at, step, value);
      }
    }
  };
};

}  // namespace collctl::kernels::cuda
