// How much is queued on a GPU at once. The driver's own queue takes about a thousand kernels, and a
// launch that waits for a place in it holds a lock of the driver: whoever asks the driver anything
// meanwhile, such as the watching thread, waits for the GPU too. So launches wait here instead, for
// events among them.
//
// Threads: the one that launches. Costs an event every kEvery launches.
#pragma once
#include <array>
#include <cstdint>
#include <functional>

#include "transport/device/device.h"

namespace collctl::runtime {

class LaunchQueue {
 public:
  static constexpr uint64_t kEvery = 128, kMarks = 4;  // about 600 in flight at most

  static Result<LaunchQueue> make(const transport::DevicePointer& device);
  // Waits until there is room for more; no longer than until `over` says so. Errors: the driver's.
  Status await_room(const std::function<bool()>& over);
  // So many kernels were queued on the stream.
  Status queued(uint64_t launches, const transport::DeviceStream& stream);

 private:
  std::array<transport::DeviceEvent, kMarks> marks_;
  uint64_t first_ = 0, next_ = 0;  // marks in flight are [first_, next_), at % kMarks
  uint64_t unmarked_ = 0;          // launches since the last mark
};

}  // namespace collctl::runtime
