#include "cmd/measure/start_cost.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"

namespace collctl::cmd {

CostWatch::CostWatch(transport::DevicePointer device) : device_(std::move(device)) {
  resume();
}

void CostWatch::resume() {
  if (std::exchange(running_, true)) return;
  free_ = device_->free_bytes();
  known_ = known_ && free_ != 0;
  since_ns_ = now_ns();
}

void CostWatch::pause() {
  if (!std::exchange(running_, false)) return;
  counted_ns_ += now_ns() - since_ns_;
  const uint64_t left = device_->free_bytes();
  known_ = known_ && left != 0;
  taken_ += int64_t(free_) - int64_t(left);
}

StartCost CostWatch::done() {
  pause();
  StartCost cost;
  cost.seconds = double(counted_ns_) / 1e9;
  if (known_) cost.taken_bytes = uint64_t(std::max<int64_t>(0, taken_));
  return cost;
}

}  // namespace collctl::cmd
