// Monotonic time and deadlines. A Deadline is an absolute point; every wait in the product takes
// one.
#pragma once
#include <time.h>

#include <cstdint>
#include <limits>

namespace collctl::base {

// Stands in for the machine's clock: a test's, or base/stop.h's. Set before other threads run.
inline int64_t (*other_clock)() = nullptr;

// The kernel's monotonic clock, which the kernel's own waits go by.
inline int64_t machine_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return int64_t(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

inline int64_t now_ns() {
  if (other_clock != nullptr) [[unlikely]]
    return other_clock();
  return machine_ns();
}

inline double seconds_since(int64_t start_ns) {
  return double(now_ns() - start_ns) * 1e-9;
}

class Deadline {
 public:
  static Deadline after_ns(int64_t ns) { return Deadline(now_ns() + ns); }
  static Deadline after_ms(int64_t ms) { return after_ns(ms * 1'000'000); }
  static Deadline after_seconds(double s) { return after_ns(int64_t(s * 1e9)); }
  static Deadline at_ns(int64_t ns) { return Deadline(ns); }
  int64_t at() const { return at_ns_; }
  int64_t remaining_ns() const { return at_ns_ - now_ns(); }
  bool passed() const { return remaining_ns() <= 0; }
  // For poll(2): rounded up, never negative, capped to `cap_ms`.
  int poll_ms(int cap_ms = 1'000'000) const {
    const int64_t left = remaining_ns();
    if (left <= 0) return 0;
    const int64_t ms = (left + 999'999) / 1'000'000;
    return ms > cap_ms ? cap_ms : int(ms);
  }
  Deadline earlier(Deadline other) const { return at_ns_ < other.at_ns_ ? *this : other; }

 private:
  explicit Deadline(int64_t at) : at_ns_(at) {}
  int64_t at_ns_;
};

}  // namespace collctl::base

namespace collctl {
using base::Deadline;
using base::now_ns;
}  // namespace collctl
