// Plugins have no descriptor to sleep on: a timer takes its place in poll, which rings the sooner
// the less time has passed since something moved. Owned by a connection; threads: its driver.
#pragma once
#include <sys/timerfd.h>

#include <algorithm>
#include <cerrno>

#include "base/bell.h"
#include "base/clock.h"
#include "base/fd.h"

namespace collctl::transport {

class PluginTimer {
 public:
  static Result<PluginTimer> make() {
    base::Fd fd(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
    if (!fd) return base::errno_error(ErrorCode::unavailable, "timerfd_create", errno);
    return PluginTimer(std::move(fd));
  }
  int fd() const { return fd_.get(); }
  void moved() { moved_ns_ = now_ns(); }
  // Rings after an eighth of the time that nothing has moved: short against what has been waited
  // for already; what is idle costs a look a millisecond.
  void set() {
    constexpr int64_t kShortestNs = 10'000, kLongestNs = 1'000'000;
    const int64_t pause = std::clamp((now_ns() - moved_ns_) / 8, kShortestNs, kLongestNs);
    const itimerspec at{.it_interval = {}, .it_value = {.tv_sec = 0, .tv_nsec = long(pause)}};
    ::timerfd_settime(fd_.get(), 0, &at, nullptr);
  }
  void drain() { base::drain_bell(fd_.get()); }

 private:
  explicit PluginTimer(base::Fd fd) : fd_(std::move(fd)), moved_ns_(now_ns()) {}
  base::Fd fd_;
  int64_t moved_ns_;
};

}  // namespace collctl::transport
