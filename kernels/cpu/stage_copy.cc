#include "kernels/cpu/stage_copy.h"

#include <algorithm>
#include <cstring>

#include "base/clock.h"

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
constexpr uint32_t kTries = 4;
// Cached copies between cores elsewhere reach 8 and more; trying them now and then costs little
// beside what streaming saves.
constexpr double kCrawlRate = 5.0;
constexpr uint32_t kStreamedCopies = 256;

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

void stage_copy(void* to, const void* from, uint64_t bytes, bool streams) {
#if COLL_STREAMS
  if (streams && bytes >= kStreamedBytes) {
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
  static_cast<void>(streams);
  std::memcpy(to, from, bytes);
}

void StagePace::copy(void* to, const void* from, uint64_t bytes) {
  if (bytes < kStreamedBytes) return stage_copy(to, from, bytes, false);
  if (streamed_left_ > 0) {
    --streamed_left_;
    return stage_copy(to, from, bytes, true);
  }
  const int64_t start_ns = now_ns();
  stage_copy(to, from, bytes, false);
  took(bytes, now_ns() - start_ns);
}

// The best of a few counts: others may have been interrupted, or have touched memory for the first
// time.
void StagePace::took(uint64_t bytes, int64_t ns) {
  best_rate_ = std::max(best_rate_, double(bytes) / double(std::max<int64_t>(1, ns)));
  if (++tried_ < kTries) return;
  if (best_rate_ < kCrawlRate) streamed_left_ = kStreamedCopies;
  tried_ = 0;
  best_rate_ = 0;
}

}  // namespace collctl::kernels
