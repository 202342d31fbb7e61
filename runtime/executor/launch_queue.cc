#include "runtime/executor/launch_queue.h"

#include <utility>

#include "base/wait.h"

namespace collctl::runtime {

Result<LaunchQueue> LaunchQueue::make(const transport::DevicePointer& device) {
  LaunchQueue made;
  for (Mark& mark : made.marks_) {
    COLL_ASSIGN(mark.passed, transport::DeviceEvent::make(device, false));
  }
  return made;
}

Status LaunchQueue::await_room(uint64_t kernels, const std::function<bool()>& over) {
  constexpr int64_t kSpinNs = 1'000'000, kNapNs = 100'000;  // what is queued lasts longer
  const int64_t start = now_ns();
  while (!has_room(kernels) && first_ != next_) {
    Mark& mark = marks_[first_ % marks_.size()];
    COLL_ASSIGN(const bool passed, mark.passed.done());
    if (passed) {
      in_flight_ -= mark.kernels;
      ++first_;
    } else if (over()) {
      return {};
    } else if (now_ns() - start < kSpinNs) {
      base::yield_thread();
    } else {
      base::sleep_until(Deadline::after_ns(kNapNs));
    }
  }
  return {};
}

Status LaunchQueue::queued(uint64_t kernels, const transport::DeviceStream& stream) {
  in_flight_ += kernels;
  unmarked_ += kernels;
  if (unmarked_ < kEvery || next_ - first_ == marks_.size()) return {};
  Mark& mark = marks_[next_++ % marks_.size()];
  mark.kernels = std::exchange(unmarked_, 0);
  return mark.passed.record(stream.get());
}

}  // namespace collctl::runtime
