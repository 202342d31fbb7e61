// Loads, stores and flags of device memory that others read and write while a kernel runs (slots,
// counters), and of callers' buffers. Any thread; addresses are global memory of any device, or
// pinned host memory.
#pragma once
#include "kernels/cuda/ptx.cuh"

namespace collctl::kernels::cuda {

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
    plain(*reinterpret_cast<uint64_t*>(p)) = word;
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
