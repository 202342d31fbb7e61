#include "runtime/executor/launch_queue.h"

#include "base/wait.h"

namespace collctl::runtime {

Result<LaunchQueue> LaunchQueue::make(const transport::DevicePointer& device) {
  LaunchQueue made;
  for (transport::DeviceEvent& mark : made.marks_) {
    COLL_ASSIGN(mark, transport::DeviceEvent::make(device, false));
  }
  return made;
}

Status LaunchQueue::await_room(const std::function<bool()>& over) {
  constexpr int64_t kSpinNs = 1'000'000, kSleepNs = 100'000;  // what is queued lasts longer
  const int64_t start = now_ns();
  while (next_ - first_ == kMarks) {
    COLL_ASSIGN(const bool passed, marks_[first_ % kMarks].done());
    if (passed) {
      ++first_;
    } else if (over()) {
      return {};
    } else if (now_ns() - start < kSpinNs) {
      base::yield_thread();
    } else {
      base::sleep_until(Deadline::after_ns(kSleepNs));
    }
  }
  return {};
}

Status LaunchQueue::queued(uint64_t launches, const transport::DeviceStream& stream) {
  unmarked_ += launches;
  if (unmarked_ < kEvery || next_ - first_ == kMarks) return {};
  unmarked_ = 0;
  return marks_[next_++ % kMarks].record(stream.get());
}

}  // namespace collctl::runtime
