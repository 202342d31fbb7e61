#include "kernels/cpu/stage_copy.h"

#include <cstring>

// ThreadSanitizer sees no streaming stores, so it would not see races either.
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#include <emmintrin.h>
#define COLL_STREAMS 1
#else
#define COLL_STREAMS 0
#endif

namespace collctl::kernels {
namespace {

constexpr uint64_t kLine = 64;

#if COLL_STREAMS
void stream_lines(uint8_t* to, const uint8_t* from, uint64_t lines) {
  for (uint64_t i = 0; i < lines; ++i, to += kLine, from += kLine) {
    __m128i v[4];
    for (int k = 0; k < 4; ++k) v[k] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from) + k);
    for (int k = 0; k < 4; ++k) _mm_stream_si128(reinterpret_cast<__m128i*>(to) + k, v[k]);
  }
  // Streaming stores obey no order but this one.
  _mm_sfence();
}
#endif

}  // namespace

bool streams_to_peers() {
#if COLL_STREAMS
  static const bool amd = __builtin_cpu_is("amd") != 0;
  return amd;
#else
  return false;
#endif
}

void stage_copy(void* to, const void* from, uint64_t bytes) {
#if COLL_STREAMS
  if (bytes >= kStreamedBytes && streams_to_peers()) {
    auto* target = static_cast<uint8_t*>(to);
    const auto* source = static_cast<const uint8_t*>(from);
    const uint64_t head = (kLine - reinterpret_cast<uintptr_t>(target) % kLine) % kLine;
    const uint64_t lines = (bytes - head) / kLine, tail = bytes - head - lines * kLine;
    std::memcpy(target, source, head);
    stream_lines(target + head, source + head, lines);
    std::memcpy(target + bytes - tail, source + bytes - tail, tail);
    return;
  }
#endif
  std::memcpy(to, from, bytes);
}

}  // namespace collctl::kernels
