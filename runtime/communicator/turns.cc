#include "runtime/communicator/turns.h"

#include "base/format.h"
#include "base/wait.h"

namespace collctl::runtime {

uint64_t Turns::take(bool may_connect) {
  if (may_connect) {
    const std::lock_guard lock(mutex_);
    ++connecting_;
  }
  return issue() - 1;
}

Status Turns::drain(Deadline deadline) {
  std::unique_lock lock(mutex_);
  if (base::wait_for(changed_, lock, deadline, [&] { return idle(); })) return {};
  return Error(ErrorCode::deadline, format("rank {}: {} operations are still in progress", rank_,
                                           issued_.load() - done_.load(std::memory_order_acquire)))
      .blame(rank_);
}

Status Turns::wait_until_connected(Deadline deadline) {
  std::unique_lock lock(mutex_);
  if (base::wait_for(changed_, lock, deadline, [&] { return connecting_ == 0; })) return {};
  return Error(ErrorCode::deadline,
               format("rank {}: operations in progress have not connected their links", rank_))
      .blame(rank_);
}

void Turns::wait_for(uint64_t number) {
  // Ended by the submissions before it, each of which ends by data, abort or its deadline.
  std::unique_lock lock(mutex_);
  while (!base::wait_for(changed_, lock, Deadline::after_seconds(60),
                         [&] { return done_.load(std::memory_order_acquire) == number; })) {
  }
}

void Turns::connected() {
  const std::lock_guard lock(mutex_);
  --connecting_;
  changed_.notify_all();
}

void Turns::end(uint64_t number) {
  const std::lock_guard lock(mutex_);
  done_.store(number + 1, std::memory_order_release);
  changed_.notify_all();
}

}  // namespace collctl::runtime
