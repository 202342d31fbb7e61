// The loops of protocol Simple: bytes from one source, or the reduction of several, into the kept
// copy and the targets. Called by all movers of a team together, thread `index` of `count`; slots
// are aligned to 16 bytes, the caller's buffers need not be. A thread has up to 16 packs of 16
// bytes in flight, which is what a link needs.
#pragma once
#include "kernels/cuda/lanes.cuh"
#include "kernels/cuda/memory.cuh"

namespace collctl::kernels::cuda {

struct LoopArguments {
  const uint8_t* first;          // sources are combined in this order: first, others[0], ...
  const uint8_t* const* others;  // null with other_count 0
  int other_count;
  uint8_t* kept;  // null: not kept
  uint8_t* const* targets;
  int target_count;
  uint64_t bytes;
  int index, count;
  Finish finish;
};

__device__ __forceinline__ uint32_t misalignment(const void* p) {
  return uint32_t(reinterpret_cast<uintptr_t>(p)) & 15;
}
__device__ __forceinline__ bool all_aligned(const LoopArguments& a) {
  uint32_t bits = misalignment(a.first) | misalignment(a.kept);
#pragma unroll 1
  for (int i = 0; i < a.other_count; ++i) bits |= misalignment(a.others[i]);
#pragma unroll 1
  for (int t = 0; t < a.target_count; ++t) bits |= misalignment(a.targets[t]);
  return bits == 0;
}

// Where a batch of packs goes: pack first, first + step, ... below `end`.
template <int kUnroll>
__device__ __forceinline__ void store_batch(uint8_t* to, const Pack (&value)[kUnroll],
                                            uint64_t first, uint32_t step, uint64_t end) {
#pragma unroll
  for (int u = 0; u < kUnroll; ++u)
    if (first + u * step < end) store_pack(to + 16 * (first + u * step), value[u]);
}
template <int kUnroll>
__device__ __forceinline__ void load_batch(const uint8_t* from, Pack (&value)[kUnroll],
                                           uint64_t first, uint32_t step, uint64_t end) {
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    value[u] = {{0, 0}};
    if (first + u * step < end) value[u] = load_pack(from + 16 * (first + u * step));
  }
}

// Packs [0, packs) of aligned memory.
template <int kUnroll>
__device__ __forceinline__ void copy_packs(const LoopArguments& a, uint64_t packs) {
#pragma unroll 1
  for (uint64_t p = a.index; p < packs; p += uint64_t(kUnroll) * a.count) {
    Pack value[kUnroll];
    load_batch(a.first, value, p, a.count, packs);
    if (a.kept != nullptr) store_batch(a.kept, value, p, a.count, packs);
#pragma unroll 1
    for (int t = 0; t < a.target_count; ++t) store_batch(a.targets[t], value, p, a.count, packs);
  }
}

// One source to all targets.
static __device__ __noinline__ void copy_loop(const LoopArguments& given) {
  LoopArguments a = given;
  if (a.kept == a.first) a.kept = nullptr;
  uint64_t done = 0;  // bytes
  if (all_aligned(a)) {
    copy_packs<8>(a, a.bytes / 16);
    done = a.bytes / 16 * 16;
  } else if (a.target_count == 0 && a.kept != nullptr &&
             misalignment(a.first) == misalignment(a.kept)) {
    // Between the caller's buffers: 16 bytes at a time once the first few are done.
    const uint64_t head = 16 - misalignment(a.first);
    if (head < a.bytes) {
      if (a.index < int(head)) a.kept[a.index] = a.first[a.index];
      a.first += head, a.kept += head, a.bytes -= head;
      copy_packs<8>(a, a.bytes / 16);
      done = a.bytes / 16 * 16;
    }
  }
#pragma unroll 1
  for (uint64_t at = done + uint64_t(a.index) * 16; at < a.bytes; at += uint64_t(a.count) * 16) {
    const int64_t n = int64_t(a.bytes - at);
    const Pack value = load_part(a.first + at, n);
    if (a.kept != nullptr) store_part(a.kept + at, n, value);
#pragma unroll 1
    for (int t = 0; t < a.target_count; ++t) store_part(a.targets[t] + at, n, value);
  }
}

template <DataType kType, RedOp kOp>
struct ReduceLoop {
  // Bytes take the most registers and instructions per pack. Sums matter most: the
  // others have fewer packs in flight, for the sake of compile time and size.
  static constexpr bool kSum = kOp == RedOp::sum;
  static constexpr int kUnroll =
      (sizeof(typename Element<kType>::Storage) == 1 ? 4 : 8) / (kSum ? 1 : 2);

  // Sources of aligned memory, kOthers + 1 of them.
  template <int kOthers, int kPacks>
  static __device__ __forceinline__ void reduce_packs(const LoopArguments& a, uint64_t packs) {
    const uint8_t* other[kOthers];
#pragma unroll
    for (int s = 0; s < kOthers; ++s) other[s] = a.others[s];
#pragma unroll 1
    for (uint64_t p = a.index; p < packs; p += uint64_t(kPacks) * a.count) {
      Pack value[kPacks], more[kOthers][kPacks];
      load_batch(a.first, value, p, a.count, packs);
#pragma unroll
      for (int s = 0; s < kOthers; ++s) load_batch(other[s], more[s], p, a.count, packs);
#pragma unroll
      for (int u = 0; u < kPacks; ++u)
#pragma unroll
        for (int w = 0; w < 2; ++w) {
          Lanes<kType> sum = unpack<kType>(value[u].word[w]);
#pragma unroll
          for (int s = 0; s < kOthers; ++s)
            combine<kType, kOp>(sum, unpack<kType>(more[s][u].word[w]));
          value[u].word[w] = pack_scaled<kType, kOp>(sum, a.finish);
        }
      if (a.kept != nullptr) store_batch(a.kept, value, p, a.count, packs);
#pragma unroll 1
      for (int t = 0; t < a.target_count; ++t) store_batch(a.targets[t], value, p, a.count, packs);
    }
  }

  static __device__ __noinline__ void run(const LoopArguments& given) {
    const LoopArguments a = given;
    uint64_t done = 0;
    if (scales<kType>(a.finish) && all_aligned(a)) {
      if (a.other_count == 1) {
        done = a.bytes / 16;
        reduce_packs<1, kUnroll>(a, done);
      }
      if constexpr (kSum)
        if (a.other_count == 2) {
          done = a.bytes / 16;
          reduce_packs<2, kUnroll / 2>(a, done);
        }
    }
    // Any number of sources, alignment and divisor, and the end.
#pragma unroll 1
    for (uint64_t at = (done + a.index) * 16; at < a.bytes; at += uint64_t(a.count) * 16) {
      const int64_t n = int64_t(a.bytes - at);
      const Pack begin = load_part(a.first + at, n);
      Lanes<kType> low = unpack<kType>(begin.word[0]), high = unpack<kType>(begin.word[1]);
#pragma unroll 1
      for (int s = 0; s < a.other_count; ++s) {
        const Pack more = load_part(a.others[s] + at, n);
        combine<kType, kOp>(low, unpack<kType>(more.word[0]));
        combine<kType, kOp>(high, unpack<kType>(more.word[1]));
      }
      const Pack value{
          {pack_finished<kType, kOp>(low, a.finish), pack_finished<kType, kOp>(high, a.finish)}};
      if (a.kept != nullptr) store_part(a.kept + at, n, value);
#pragma unroll 1
      for (int t = 0; t < a.target_count; ++t) store_part(a.targets[t] + at, n, value);
    }
  }
};

}  // namespace collctl::kernels::cuda
