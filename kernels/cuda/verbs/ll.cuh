// Protocol LL: lines of 16 bytes, {data low, flag, data high, flag}, flag = uint32(step + 1). One
// store carries data and its announcement, so no fence and no counter are needed. A thread takes
// several lines at a time, so that their loads are in flight together.
#pragma once
#include "kernels/cuda/verbs/line_slices.cuh"

namespace collctl::kernels::cuda {

inline constexpr uint32_t kLlLineBytes = 16;

// A line as its two halves of 8 bytes, each with its flag above the data.
__device__ __forceinline__ bool has_flag(const Pack& line, uint32_t flag) {
  return uint32_t(line.word[0] >> 32) == flag && uint32_t(line.word[1] >> 32) == flag;
}
__device__ __forceinline__ uint64_t ll_data(const Pack& line) {
  return uint64_t(uint32_t(line.word[1])) << 32 | uint32_t(line.word[0]);
}
__device__ __forceinline__ Pack ll_line(uint64_t data, uint32_t flag) {
  const uint64_t high = uint64_t(flag) << 32;
  return {{high | uint32_t(data), high | data >> 32}};
}

// `kLines`: that a thread has in flight.
template <int kLines>
struct LlLinesOf {
  static constexpr Protocol kProtocol = Protocol::ll;
  static constexpr int kUnroll = kLines;
  static __device__ uint32_t wire_bytes(uint64_t bytes) {
    return uint32_t((bytes + 7) / 8) * kLlLineBytes;
  }

  // The lines first, first + step, ... below `end` of a slot, once they have the flag. Every so
  // often it asks wait.must_abort(what it sees instead, waiting since); false: so it was.
  template <class Wait>
  static __device__ __forceinline__ bool read_slot(const uint8_t* slot, uint32_t flag,
                                                   uint32_t first, uint32_t step, uint32_t end,
                                                   uint64_t (&data)[kUnroll], const Wait& wait) {
    Pack line[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      line[u] = ll_line(0, flag);
      if (first + u * step < end)
        line[u] = load_pack(slot + uint64_t(first + u * step) * kLlLineBytes);
    }
    int64_t start = 0;
    int polls = 0;
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
#pragma unroll 1
      while (!has_flag(line[u], flag)) {
        if (++polls % kPollsBetweenLooks == 0 || (start == 0 && wait.counts())) {
          if (start == 0)
            start = clock_ns();
          else if (wait.must_abort(line[u].word[0] >> 32, start))
            return false;
        }
        line[u] = load_pack(slot + uint64_t(first + u * step) * kLlLineBytes);
      }
      data[u] = ll_data(line[u]);
    }
    if (start != 0 && wait.counts()) wait.over(start);
    return true;
  }
  // `a` from here on: a LineArguments, or what says the same of a slice.
  template <class Arguments>
  static __device__ __forceinline__ bool read(const Arguments& a, int i, uint32_t first,
                                              uint32_t step, uint32_t end,
                                              uint64_t (&data)[kUnroll]) {
    const uint32_t flag = uint32_t(a.source_step(i) + 1);
    return read_slot(a.source(i), flag, first, step, end, data, a.wait(i, flag));
  }

  template <class Arguments>
  static __device__ __forceinline__ WordPlaces places(const Arguments& a, uint32_t first) {
    return {a.bytes, uint64_t(first) * 8, uint32_t(a.count) * 8, 1};
  }

  static __device__ __forceinline__ void write_slot(uint8_t* slot, uint32_t flag, uint32_t first,
                                                    uint32_t step, uint32_t end,
                                                    const uint64_t (&data)[kUnroll]) {
#pragma unroll
    for (int u = 0; u < kUnroll; ++u)
      if (first + u * step < end)
        store_pack_volatile(slot + uint64_t(first + u * step) * kLlLineBytes,
                            ll_line(data[u], flag));
  }
  template <class Arguments>
  static __device__ __forceinline__ void write(const Arguments& a, uint32_t first, uint32_t step,
                                               uint32_t end, const uint64_t (&data)[kUnroll]) {
#pragma unroll 1
    for (int t = 0; t < a.out_count; ++t)
      write_slot(a.target(t), uint32_t(a.target_step(t) + 1), first, step, end, data);
    if (a.out != nullptr) store_words<1>(a.out, places(a, first), data);
  }

  // Near the wrap of the flags (slices.h): the lines from `first` on.
  static __device__ __forceinline__ void fill_slot(uint8_t* slot, uint32_t slot_bytes,
                                                   uint32_t flag, uint32_t first, uint32_t step) {
#pragma unroll 1
    for (uint32_t l = first; l < slot_bytes / kLlLineBytes; l += step)
      store_pack_volatile(slot + uint64_t(l) * kLlLineBytes, ll_line(0, flag));
  }
  template <class Arguments>
  static __device__ __forceinline__ void fill(const Arguments& a, uint32_t lines) {
#pragma unroll 1
    for (int t = 0; t < a.out_count; ++t)
      fill_slot(a.target(t), a.target_fill(t), uint32_t(a.target_step(t) + 1), lines + a.index,
                a.count);
  }

  template <class Arguments>
  static __device__ __forceinline__ uint32_t lines_of(const Arguments& a) {
    return uint32_t((a.bytes + 7) / 8);
  }

  // From the one source, or else from `in`.
  struct Copy {
    static __device__ __noinline__ void run(const LineArguments& given) {
      const LineArguments a = given;
      move(a);
    }
    template <class Arguments>
    static __device__ __forceinline__ void move(const Arguments& a) {
      const uint32_t lines = lines_of(a), step = a.count;
#pragma unroll 1
      for (uint32_t l = a.index; l < lines; l += kUnroll * step) {
        uint64_t data[kUnroll];
        if (a.in != nullptr)
          load_words<1>(a.in, places(a, l), data);
        else if (!read(a, 0, l, step, lines, data))
          return;
        write(a, l, step, lines, data);
      }
      fill(a, lines);
    }
  };

  // `in`, then every source in turn.
  template <DataType kType, RedOp kOp>
  struct Reduce {
    template <class Arguments>
    static __device__ __noinline__ void run(const Arguments& given) {
      const Arguments a = given;
      const uint32_t lines = lines_of(a), step = a.count;
#pragma unroll 1
      for (uint32_t l = a.index; l < lines; l += kUnroll * step) {
        uint64_t data[kUnroll];
        Lanes<kType> sum[kUnroll];
        load_words<1>(a.in, places(a, l), data);
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) sum[u] = unpack<kType>(data[u]);
#pragma unroll 1
        for (int i = 0; i < a.in_count; ++i) {
          if (!read(a, i, l, step, lines, data)) return;
#pragma unroll
          for (int u = 0; u < kUnroll; ++u) combine<kType, kOp>(sum[u], unpack<kType>(data[u]));
        }
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) data[u] = pack_finished<kType, kOp>(sum[u], a.finish);
        write(a, l, step, lines, data);
      }
      fill(a, lines);
    }
  };
};
using LlLines = LlLinesOf<4>;

}  // namespace collctl::kernels::cuda
