#include "runtime/executor/device_pulse.h"

#include <algorithm>

namespace collctl::runtime {

Result<std::unique_ptr<DevicePulse>> DevicePulse::make(const transport::DevicePointer& device) {
  std::unique_ptr<DevicePulse> made(new DevicePulse);
  COLL_ASSIGN(made->answer_, transport::PinnedMemory::make(device, kMostBytes));
  COLL_ASSIGN(made->stream_, transport::DeviceStream::make(device));
  return made;
}

void DevicePulse::add(const void* at, uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (bytes > kMostBytes - bytes_) return;
  places_.push_back({at, bytes});
  bytes_ += bytes;
}

Result<bool> DevicePulse::answer() {
  COLL_ASSIGN(const bool here, stream_.idle());
  if (!here) return false;
  const uint8_t* const now = answer_.data();
  // Places that are new since the look before say nothing yet.
  const bool differs = !std::equal(
      seen_.begin(), seen_.begin() + ptrdiff_t(std::min<uint64_t>(seen_.size(), asked_)), now);
  seen_.assign(now, now + asked_);
  asked_ = 0;
  return differs;
}

Status DevicePulse::ask() {
  uint64_t at = 0;
  for (const Place& place : places_) {
    COLL_TRY(stream_.copy(answer_.data() + at, place.at, place.bytes));
    at += place.bytes;
  }
  asked_ = at;
  return {};
}

Result<bool> DevicePulse::beats() {
  const std::lock_guard lock(mutex_);
  bool differs = false;
  if (asked_ > 0) {
    COLL_ASSIGN(differs, answer());
    if (asked_ > 0) return false;  // not even a copy comes through
  }
  COLL_TRY(ask());
  return differs;
}

}  // namespace collctl::runtime
