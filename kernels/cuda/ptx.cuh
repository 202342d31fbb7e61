// All of the backend that is PTX or that only a device has: accesses that others watch, fences,
// barriers, clocks, the memory of a block. With overlap.cuh what tests put other files in place of,
// to compile the kernels for a host (tests/emulated_gpu): so everything else is plain C++.
// Any thread of a kernel; addresses are global memory of any device, or pinned host memory.
#pragma once
#include <cuda_runtime.h>

#include <cstdint>

// A variable that the threads of a block share. First in a kernel.
#define COLL_BLOCK_SHARED(type, name) __shared__ type name

namespace collctl::kernels::cuda {

inline constexpr int kWarp = 32;
inline constexpr uint32_t kAllLanes = ~uint32_t(0);

// 16 bytes: what one thread moves at a time.
struct alignas(16) Pack {
  uint64_t word[2];
};

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
// The same by the whole warp together. Lanes that diverged would store in several parts,
// and what 8 lanes store could then arrive in parts. A barrier alone does not make them continue in
// step: they repeat it until they do, and store in the same piece. Others only sync.
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
// Plain stores, made visible by a fence: plain(place) = value, and of a pack.
template <class T>
__device__ __forceinline__ T& plain(T& place) {
  return place;
}
__device__ __forceinline__ void store_pack(void* p, const Pack& v) {
  asm volatile("st.global.v2.u64 [%0], {%1,%2};" ::"l"(p), "l"(v.word[0]), "l"(v.word[1])
               : "memory");
}

// A line, or a lane's part of one: 16 bytes, of which each half of 8 arrives as one. Relaxed.
__device__ __forceinline__ void store_wire(uint8_t* to, uint64_t a, uint64_t b) {
  asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};" ::"l"(to), "l"(a), "l"(b) : "memory");
}
__device__ __forceinline__ void load_wire(const uint8_t* from, uint64_t& a, uint64_t& b) {
  asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];"
               : "=l"(a), "=l"(b)
               : "l"(from)
               : "memory");
}
// The same of words that must be seen together.
__device__ __forceinline__ void store_together(uint8_t* to, uint64_t a, uint64_t b) {
  store_wire(to, a, b);
}
__device__ __forceinline__ void load_together(const uint8_t* from, uint64_t& a, uint64_t& b) {
  load_wire(from, a, b);
}

// Staged bytes are written by others while this kernel runs: never out of a stale L1 line.
__device__ __forceinline__ uint4 load_staged(const uint8_t* p) {
  uint4 v;
  asm volatile("ld.relaxed.sys.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p));
  return v;
}

// Acquire of a counter that another device or the host stores with release.
__device__ __forceinline__ uint64_t load_acquire(const uint64_t* p) {
  uint64_t v;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
  return v;
}
// Its other side.
__device__ inline void store_release(uint64_t* p, uint64_t v) {
  asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}

// Writes of this thread and of those at its barrier are visible before its next ones.
__device__ __forceinline__ void fence_system() {
  asm volatile("fence.acq_rel.sys;" ::: "memory");
}

// The block's barriers 1..15, for `count` threads (whole warps, which sync first). A thread that
// only arrives does not wait, and its writes are seen by those that wait.
__device__ __forceinline__ void barrier_sync(int barrier, int count) {
  __syncwarp();
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(count) : "memory");
}
// That of a part of the block, counted from 0: barrier group + 1.
template <int kCount>
__device__ __forceinline__ void group_sync(int group) {
  __syncwarp();
  asm volatile("bar.sync %0, %1;" ::"r"(group + 1), "n"(kCount) : "memory");
}
__device__ __forceinline__ void barrier_arrive(int barrier, int count) {
  __syncwarp();
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(count) : "memory");
}

// A barrier of `count` threads; true in all of them when `mine` is in any.
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

// A word that is fetched here, whatever follows.
__device__ __forceinline__ void fetch_word(uint32_t word) {
  asm volatile("" ::"r"(word));
}

}  // namespace collctl::kernels::cuda
