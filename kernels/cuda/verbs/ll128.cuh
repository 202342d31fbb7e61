// Protocol LL128: lines of 128 bytes, 120 of data and a flag of 8 (slices.h). Eight lanes own a
// line, 16 bytes each, the last of them 8 and the flag; one store of a warp writes four whole
// lines. It is right only on paths where such a line arrives as a unit (torn_store.cu tests that).
//
// Reading: all lanes load, the flag's lanes compare, and the warp votes; once all flags are there
// the lines are loaded a second time, because the parts of one load may be of different age: the
// first may have read a new flag beside old data, the second follows after the flag was seen.
#pragma once
#include "kernels/cuda/verbs/line_slices.cuh"

namespace collctl::kernels::cuda {

inline constexpr int kLanesOfLine = 8;

struct Ll128Lines {
  static constexpr Protocol kProtocol = Protocol::ll128;
  // Accesses of a warp at a time, four lines each.
  static constexpr int kUnroll = 4;
  static constexpr uint32_t kLinesOfAccess = kWarp / kLanesOfLine;
  static constexpr uint32_t kLinesOfWarp = kUnroll * kLinesOfAccess;

  static __device__ uint32_t lines_of(uint64_t bytes) {
    return uint32_t((bytes + kLl128DataBytes - 1) / kLl128DataBytes);
  }
  static __device__ uint32_t wire_bytes(uint64_t bytes) {
    return lines_of(bytes) * kLl128LineBytes;
  }

  // A lane's part of line `line`: where it lies in the line's 128 bytes, and in the slice's data.
  struct Part {
    uint32_t lane_of_line = threadIdx.x % kLanesOfLine;
    uint32_t first_line;  // of this lane, in its first access
    __device__ explicit Part(uint32_t base)
        : first_line(base + threadIdx.x % kWarp / kLanesOfLine) {}
    __device__ uint32_t line(int u) const { return first_line + u * kLinesOfAccess; }
    __device__ uint64_t wire(int u) const {
      return uint64_t(line(u)) * kLl128LineBytes + lane_of_line * 16;
    }
    __device__ uint64_t data(int u) const {
      return uint64_t(line(u)) * kLl128DataBytes + lane_of_line * 16;
    }
    __device__ bool has_flag() const { return lane_of_line == kLanesOfLine - 1; }
  };

  // Two words for each access.
  using Words = uint64_t[2 * kUnroll];

  static __device__ __forceinline__ WordPlaces places(uint64_t bytes, const Part& part) {
    return {bytes, part.data(0), kLinesOfAccess * kLl128DataBytes, part.has_flag() ? 1 : 2};
  }

  static __device__ __forceinline__ void load(const uint8_t* slot, const Part& part, uint32_t end,
                                              Words& data) {
    __syncwarp();
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      Pack value{{0, 0}};
      if (part.line(u) < end) value = load_pack(slot + part.wire(u));
      data[2 * u] = value.word[0];
      data[2 * u + 1] = value.word[1];
    }
  }

  // This warp's lines of a slot, once they have the flag. Every so often it asks
  // wait.must_abort(what it sees instead, waiting since), of the lanes that miss it; false, for the
  // whole warp: so it was.
  template <class Wait>
  static __device__ __forceinline__ bool read_slot(const uint8_t* slot, uint64_t flag,
                                                   const Part& part, uint32_t end, Words& data,
                                                   const Wait& wait) {
    int64_t start = 0;
#pragma unroll 1
    for (int polls = 1;; ++polls) {
      load(slot, part, end, data);
      uint64_t seen = flag;
#pragma unroll
      for (int u = 0; u < kUnroll; ++u)
        if (part.has_flag() && part.line(u) < end && data[2 * u + 1] != flag)
          seen = data[2 * u + 1];
      if (!__any_sync(kAllLanes, seen != flag)) break;
      if (polls % kPollsBetweenLooks == 0) {
        if (start == 0)
          start = clock_ns();
        else if (__any_sync(kAllLanes, seen != flag && wait.must_abort(seen, start)))
          return false;
      } else if (start == 0 && wait.counts()) {
        start = clock_ns();
      }
    }
    if (start != 0 && wait.counts()) wait.over(start);
    load(slot, part, end, data);
    return true;
  }
  static __device__ __forceinline__ bool read(const LineArguments& a, int i, const Part& part,
                                              uint32_t end, Words& data) {
    const uint64_t flag = a.source_step(i) + 1;
    return read_slot(a.source(i), flag, part, end, data, LineWait{*a.team, i, flag});
  }

  static __device__ __forceinline__ void write_slot(uint8_t* slot, uint64_t flag, const Part& part,
                                                    uint32_t end, const Words& data) {
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const Pack value{{data[2 * u], part.has_flag() ? flag : data[2 * u + 1]}};
      // Odd words may have parted the lanes of a line.
      store_pack_together(slot + part.wire(u), value, part.line(u) < end);
    }
  }
  static __device__ __forceinline__ void write(const LineArguments& a, const Part& part,
                                               uint32_t end, const Words& data) {
#pragma unroll 1
    for (int t = 0; t < a.out_count; ++t)
      write_slot(a.target(t), a.target_step(t) + 1, part, end, data);
    if (a.out != nullptr) store_words<2>(a.out, places(a.bytes, part), data);
    __syncwarp();
  }

  struct Copy {
    static __device__ __noinline__ void run(const LineArguments& given) {
      const LineArguments a = given;
      const uint32_t lines = lines_of(a.bytes);
      const uint32_t step = a.count / kWarp * kLinesOfWarp;
#pragma unroll 1
      for (uint32_t base = a.index / kWarp * kLinesOfWarp; base < lines; base += step) {
        const Part part(base);
        Words data;
        if (a.in != nullptr)
          load_words<2>(a.in, places(a.bytes, part), data);
        else if (!read(a, 0, part, lines, data))
          return;
        __syncwarp();
        write(a, part, lines, data);
      }
    }
  };

  template <DataType kType, RedOp kOp>
  struct Reduce {
    static __device__ __noinline__ void run(const LineArguments& given) {
      const LineArguments a = given;
      const uint32_t lines = lines_of(a.bytes);
      const uint32_t step = a.count / kWarp * kLinesOfWarp;
#pragma unroll 1
      for (uint32_t base = a.index / kWarp * kLinesOfWarp; base < lines; base += step) {
        const Part part(base);
        Words data;
        Lanes<kType> sum[2 * kUnroll];
        load_words<2>(a.in, places(a.bytes, part), data);
        __syncwarp();
#pragma unroll
        for (int w = 0; w < 2 * kUnroll; ++w) sum[w] = unpack<kType>(data[w]);
#pragma unroll 1
        for (int i = 0; i < a.in_count; ++i) {
          if (!read(a, i, part, lines, data)) return;
#pragma unroll
          for (int w = 0; w < 2 * kUnroll; ++w) combine<kType, kOp>(sum[w], unpack<kType>(data[w]));
        }
#pragma unroll
        for (int w = 0; w < 2 * kUnroll; ++w) data[w] = pack_finished<kType, kOp>(sum[w], a.finish);
        write(a, part, lines, data);
      }
    }
  };
};

}  // namespace collctl::kernels::cuda
