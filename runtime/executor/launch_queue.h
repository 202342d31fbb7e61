// How much is queued on a GPU at once. The driver's own queue takes about a thousand kernels, and a
// launch that waits for a place in it holds a lock of the driver: whoever asks the driver anything
// meanwhile, such as the watching thread, waits for the GPU too. So launches wait here instead, for
// events among them.
//
// Threads: the one that launches. Costs an event every kEvery kernels.
#pragma once
#include <array>
#include <cstdint>
#include <functional>

#include "transport/device/device.h"

namespace collctl::runtime {

class LaunchQueue {
 public:
  static constexpr uint64_t kMost = 512;   // kernels in flight, unless a single launch has more
  static constexpr uint64_t kEvery = 128;  // kernels between two events

  static Result<LaunchQueue> make(const transport::DevicePointer& device);
  bool has_room(uint64_t kernels) const { return in_flight_ + kernels <= kMost; }
  // Waits until there is room for so many, or nothing that an event tells of; no longer than until
  // `over` says so. Errors: the driver's.
  Status await_room(uint64_t kernels, const std::function<bool()>& over);
  // So many were queued on the stream.
  Status queued(uint64_t kernels, const transport::DeviceStream& stream);

 private:
  struct Mark {
    transport::DeviceEvent passed;
    uint64_t kernels = 0;  // queued since the mark before
  };
  // Each stands for kEvery at least, so that there is room before all are in use.
  std::array<Mark, kMost / kEvery + 2> marks_;
  uint64_t first_ = 0, next_ = 0;  // marks in flight are [first_, next_), at % their number
  uint64_t unmarked_ = 0;          // since the last mark
  uint64_t in_flight_ = 0;         // of all marks, and unmarked
};

}  // namespace collctl::runtime
