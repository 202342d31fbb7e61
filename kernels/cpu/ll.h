// LL lines: 16 bytes {data lo, flag, data hi, flag}, 8 bytes of data each. Each 8-byte half carries
// its own flag, so nothing larger than an 8-byte load or store needs to be atomic, and no counter
// announces the data. Used by the CPU backend's blocks on the thread that runs the work.
#pragma once
#include <atomic>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#include <emmintrin.h>
#define COLL_LL_SSE 1
#else
#define COLL_LL_SSE 0
#endif

namespace collctl::kernels {

inline constexpr uint64_t kLineBytes = 16;
inline constexpr uint64_t kLineDataBytes = 8;

struct alignas(16) Line {
  uint64_t half[2];
};

inline uint64_t lines_for(uint64_t data_bytes) {
  return (data_bytes + kLineDataBytes - 1) / kLineDataBytes;
}

inline void store_line(Line* line, uint64_t data, uint32_t flag) {
#if COLL_LL_SSE
  // One 16-byte store: {lo, flag, hi, flag}.
  const __m128i lines =
      _mm_unpacklo_epi32(_mm_cvtsi64_si128(int64_t(data)), _mm_set1_epi32(int(flag)));
  _mm_store_si128(reinterpret_cast<__m128i*>(line), lines);
#else
  const uint64_t high = uint64_t(flag) << 32;
  std::atomic_ref<uint64_t>(line->half[0]).store(high | uint32_t(data), std::memory_order_release);
  std::atomic_ref<uint64_t>(line->half[1]).store(high | (data >> 32), std::memory_order_release);
#endif
}

// True, and the data, when both halves carry the flag; `seen` is a flag it saw.
inline bool load_line(Line* line, uint32_t flag, uint64_t& data, uint64_t& seen) {
  const uint64_t low = std::atomic_ref<uint64_t>(line->half[0]).load(std::memory_order_acquire);
  const uint64_t high = std::atomic_ref<uint64_t>(line->half[1]).load(std::memory_order_acquire);
  seen = uint32_t(low >> 32) != flag ? low >> 32 : high >> 32;
  data = uint32_t(low) | high << 32;
  return seen == flag;
}

#if COLL_LL_SSE
// Exactly one load (a plain one the compiler might repeat, and then check and use different data).
inline __m128i load_line_once(const Line* line) {
  __m128i v;
  asm volatile("movdqa %1, %0" : "=x"(v) : "m"(*line));
  return v;
}
#endif

// `bytes` of data into lines.
inline void pack_lines(const uint8_t* from, Line* lines, uint64_t bytes, uint32_t flag) {
  const uint64_t full = bytes / kLineDataBytes;
  for (uint64_t i = 0; i < full; ++i) {
    uint64_t data;
    std::memcpy(&data, from + i * kLineDataBytes, sizeof data);
    store_line(lines + i, data, flag);
  }
  if (const uint64_t rest = bytes % kLineDataBytes; rest != 0) {
    uint64_t data = 0;
    std::memcpy(&data, from + full * kLineDataBytes, rest);
    store_line(lines + full, data, flag);
  }
}

// Unpacks lines in pairs for as long as their flags are there; returns how many data bytes it
// wrote.
inline uint64_t unpack_ready_pairs(Line* lines, uint8_t* to, uint64_t bytes, uint32_t flag) {
#if COLL_LL_SSE
  const __m128i flags = _mm_set1_epi32(int(flag));
  uint64_t at = 0;
  for (; at + 2 * kLineDataBytes <= bytes; at += 2 * kLineDataBytes, lines += 2) {
    const __m128i a = load_line_once(lines), b = load_line_once(lines + 1);
    const __m128i same = _mm_and_si128(_mm_cmpeq_epi32(a, flags), _mm_cmpeq_epi32(b, flags));
    if ((_mm_movemask_ps(_mm_castsi128_ps(same)) & 0b1010) != 0b1010) break;
    const __m128 data =
        _mm_shuffle_ps(_mm_castsi128_ps(a), _mm_castsi128_ps(b), _MM_SHUFFLE(2, 0, 2, 0));
    _mm_storeu_ps(reinterpret_cast<float*>(to + at), data);
  }
  return at;
#else
  static_cast<void>(lines), static_cast<void>(to), static_cast<void>(bytes);
  static_cast<void>(flag);
  return 0;
#endif
}

}  // namespace collctl::kernels
