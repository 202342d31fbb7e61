// Loads, stores and fences of device memory that others read and write while a kernel runs (slots,
// counters, flags), and the block's barriers: all of the backend that is PTX. Any thread; addresses
// are global memory of any device, or pinned host memory.
#pragma once
#include <cstdint>

namespace collctl::kernels::cuda {

inline constexpr int kWarp = 32;
inline constexpr uint32_t kAllLanes = ~uint32_t(0);

// 16 bytes: what one thread moves at a time.
struct alignas(16) Pack {
  uint64_t word[2];
};

// Volatile: relaxed, of the whole system, never from a stale line of the first-level cache.
__device__ __forceinline__ uint64_t load_volatile(const uint64_t* p) {
  return *reinterpret_cast<const volatile uint64_t*>(p);
}
__device__ __forceinline__ uint32_t load_volatile(const uint32_t* p) {
  return *reinterpret_cast<const volatile uint32_t*>(p);
}
__device__ __forceinline__ void store_volatile(uint64_t* p, uint64_t v) {
  *reinterpret_cast<volatile uint64_t*>(p) = v;
}
__device__ __forceinline__ void store_volatile(uint32_t* p, uint32_t v) {
  *reinterpret_cast<volatile uint32_t*>(p) = v;
}
// One access of 16 bytes, aligned to 16.
__device__ __forceinline__ Pack load_pack(const void* p) {
  Pack v;
  asm volatile("ld.volatile.global.v2.u64 {%0,%1}, [%2];"
               : "=l"(v.word[0]), "=l"(v.word[1])
               : "l"(p)
               : "memory");
  return v;
}
// A store in one access that may not be split or put off.
__device__ __forceinline__ void store_pack_volatile(void* p, const Pack& v) {
  asm volatile("st.volatile.global.v2.u64 [%0], {%1,%2};" ::"l"(p), "l"(v.word[0]), "l"(v.word[1])
               : "memory");
}
// The same by the whole warp together. Lanes that came different ways would store in several parts,
// and what 8 lanes store could then arrive in parts. A meeting alone does not make them go on in
// step: they meet until they do, and store in the same piece. Lanes with `stores` false only meet.
__device__ __forceinline__ void store_pack_together(void* p, const Pack& v, bool stores) {
  asm volatile(
      "{ .reg .pred does, parted;\n\t"
      ".reg .b32 lanes;\n\t"
      "setp.ne.u32 does, %3, 0;\n"
      "meet:\n\t"
      "bar.warp.sync 0xffffffff;\n\t"
      "activemask.b32 lanes;\n\t"
      "setp.ne.u32 parted, lanes, 0xffffffff;\n\t"
      "@parted bra meet;\n\t"
      "@does st.volatile.global.v2.u64 [%0], {%1,%2}; }" ::"l"(p),
      "l"(v.word[0]), "l"(v.word[1]), "r"(uint32_t(stores))
      : "memory");
}
// A plain store: made visible by a fence.
__device__ __forceinline__ void store_pack(void* p, const Pack& v) {
  asm volatile("st.global.v2.u64 [%0], {%1,%2};" ::"l"(p), "l"(v.word[0]), "l"(v.word[1])
               : "memory");
}

// Acquire of a counter that another device or the host stores with release.
__device__ __forceinline__ uint64_t load_acquire(const uint64_t* p) {
  uint64_t v;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
  return v;
}
// A flag in the block's shared memory, and with it what was read and written before it. By atomics:
// racecheck takes any other access that no barrier orders for a race.
__device__ __forceinline__ void store_release_block(uint32_t* p, uint32_t v) {
  __threadfence_block();
  atomicExch(p, v);
}
__device__ __forceinline__ uint32_t load_acquire_block(uint32_t* p) {
  const uint32_t v = atomicOr(p, 0u);
  __threadfence_block();
  return v;
}
// What this thread and those it met at a barrier have written is seen before what it writes next.
__device__ __forceinline__ void fence_system() {
  asm volatile("fence.acq_rel.sys;" ::: "memory");
}

// The block's barriers 1..15, for `count` threads (whole warps, which meet first). Who only arrives
// does not wait, and what it has written is seen by those who do.
__device__ __forceinline__ void barrier_sync(int barrier, int count) {
  __syncwarp();
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(count) : "memory");
}
__device__ __forceinline__ void barrier_arrive(int barrier, int count) {
  __syncwarp();
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(count) : "memory");
}

// All `count` threads meet; true in all of them when `mine` is in any.
__device__ __forceinline__ bool barrier_any(int barrier, int count, bool mine) {
  uint32_t any;
  __syncwarp();
  asm volatile(
      "{ .reg .pred in, out;\n\t"
      "setp.ne.u32 in, %3, 0;\n\t"
      "barrier.cta.red.or.pred out, %1, %2, in;\n\t"
      "selp.u32 %0, 1, 0, out; }"
      : "=r"(any)
      : "r"(barrier), "r"(count), "r"(uint32_t(mine))
      : "memory");
  return any != 0;
}

__device__ __forceinline__ int64_t clock_ns() {
  int64_t t;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
  return t;
}

// --- Memory of any alignment: the caller's buffers. In pieces as wide as the address allows.

template <class Piece>
__device__ __forceinline__ uint64_t load_pieces(const uint8_t* p) {
  uint64_t word = 0;
#pragma unroll
  for (int i = 0; i < int(8 / sizeof(Piece)); ++i)
    word |= uint64_t(reinterpret_cast<const volatile Piece*>(p)[i]) << (8 * sizeof(Piece) * i);
  return word;
}
template <class Piece>
__device__ __forceinline__ void store_pieces(uint8_t* p, uint64_t word) {
#pragma unroll
  for (int i = 0; i < int(8 / sizeof(Piece)); ++i)
    reinterpret_cast<Piece*>(p)[i] = Piece(word >> (8 * sizeof(Piece) * i));
}

// `n` bytes (0..8; a full word is 8), the rest zero.
inline __device__ __noinline__ uint64_t load_word_slowly(const uint8_t* p, int n) {
  const uintptr_t at = reinterpret_cast<uintptr_t>(p);
  if (n == 8 && at % 4 == 0) return load_pieces<uint32_t>(p);
  if (n == 8 && at % 2 == 0) return load_pieces<uint16_t>(p);
  uint64_t word = 0;
#pragma unroll 1
  for (int i = 0; i < n; ++i)
    word |= uint64_t(*reinterpret_cast<const volatile uint8_t*>(p + i)) << (8 * i);
  return word;
}
inline __device__ __noinline__ void store_word_slowly(uint8_t* p, int n, uint64_t word) {
  const uintptr_t at = reinterpret_cast<uintptr_t>(p);
  if (n == 8 && at % 4 == 0) return store_pieces<uint32_t>(p, word);
  if (n == 8 && at % 2 == 0) return store_pieces<uint16_t>(p, word);
#pragma unroll 1
  for (int i = 0; i < n; ++i) p[i] = uint8_t(word >> (8 * i));
}

__device__ __forceinline__ uint64_t load_word(const uint8_t* p, int64_t n) {
  if (n >= 8 && reinterpret_cast<uintptr_t>(p) % 8 == 0)
    return *reinterpret_cast<const volatile uint64_t*>(p);
  return n <= 0 ? 0 : load_word_slowly(p, n < 8 ? int(n) : 8);
}
__device__ __forceinline__ void store_word(uint8_t* p, int64_t n, uint64_t word) {
  if (n >= 8 && reinterpret_cast<uintptr_t>(p) % 8 == 0)
    *reinterpret_cast<uint64_t*>(p) = word;
  else if (n > 0)
    store_word_slowly(p, n < 8 ? int(n) : 8, word);
}
// `n` bytes of a pack: 16, or fewer at the end.
__device__ __forceinline__ Pack load_part(const uint8_t* p, int64_t n) {
  if (n >= 16 && reinterpret_cast<uintptr_t>(p) % 16 == 0) return load_pack(p);
  return {{load_word(p, n), load_word(p + 8, n - 8)}};
}
__device__ __forceinline__ void store_part(uint8_t* p, int64_t n, const Pack& v) {
  if (n >= 16 && reinterpret_cast<uintptr_t>(p) % 16 == 0) {
    store_pack(p, v);
  } else {
    store_word(p, n, v.word[0]);
    store_word(p + 8, n - 8, v.word[1]);
  }
}

}  // namespace collctl::kernels::cuda
