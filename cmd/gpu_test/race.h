// Copies on several streams at the same time, each timed by its own GPU. Threads: one.
#pragma once
#include <functional>
#include <vector>

#include "base/result.h"
#include "transport/device/device.h"

namespace collctl::cmd {

inline constexpr double kGpuTimeout = 30;  // seconds, for GPUs that do not go on

// A copy that is made again and again on one stream.
struct Lane {
  const transport::DevicePointer* device;
  const transport::DeviceStream* stream;
  std::function<Status()> copy;  // queues it once
};
// GB/s of each lane while all of them run, for about that long, at least two copies of `bytes`.
// Copies that do not count come first and hold all streams back until everything is queued: the
// time to queue is in nobody's figure. Errors: of the streams; deadline; unavailable: a GPU whose
// clock stands.
Result<std::vector<double>> race(const std::vector<Lane>& lanes, uint64_t bytes, double seconds);

}  // namespace collctl::cmd
