#include "cmd/guarded_buffer.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/format.h"

namespace collctl::cmd {

GuardedBuffer::~GuardedBuffer() {
  if (base_ != nullptr) munmap(base_, capacity_ + 2 * kGuardBytes);
}

GuardedBuffer::GuardedBuffer(GuardedBuffer&& other) noexcept
    : base_(std::exchange(other.base_, nullptr)), capacity_(std::exchange(other.capacity_, 0)) {}

GuardedBuffer& GuardedBuffer::operator=(GuardedBuffer&& other) noexcept {
  std::swap(base_, other.base_);
  std::swap(capacity_, other.capacity_);
  return *this;
}

Status GuardedBuffer::reserve(uint64_t bytes) {
  if (base_ != nullptr && bytes <= capacity_) return {};
  if (base_ != nullptr) munmap(base_, capacity_ + 2 * kGuardBytes);
  base_ = nullptr;
  capacity_ = 0;
  if (bytes > UINT64_MAX / 4)
    return Error{ErrorCode::unavailable, format("a buffer of {} bytes", bytes),
                 "use a smaller --max-bytes"};
  const uint64_t rounded =
      std::max<uint64_t>(1, (bytes + kGuardBytes - 1) / kGuardBytes) * kGuardBytes;
  void* memory = mmap(nullptr, rounded + 2 * kGuardBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    Error error = base::errno_error(ErrorCode::unavailable,
                                    format("allocate a buffer of {} bytes", bytes), errno);
    error.hint = "use a smaller --max-bytes or fewer ranks on this host";
    return error;
  }
  base_ = static_cast<uint8_t*>(memory);
  capacity_ = rounded;
  return {};
}

void GuardedBuffer::set_guards(uint64_t used) {
  COLL_CHECK(base_ != nullptr && used <= capacity_);
  std::memset(base_, kPoison, kGuardBytes);
  std::memset(data() + used, kPoison, kGuardBytes);
}

void GuardedBuffer::poison(uint64_t used) {
  COLL_CHECK(base_ != nullptr && used <= capacity_);
  std::memset(base_, kPoison, used + 2 * kGuardBytes);
}

uint64_t GuardedBuffer::damaged(uint64_t used) const {
  COLL_CHECK(base_ != nullptr && used <= capacity_);
  uint64_t bytes = 0;
  for (const uint8_t* zone :
       {static_cast<const uint8_t*>(base_), static_cast<const uint8_t*>(data() + used)})
    bytes += uint64_t(kGuardBytes - uint64_t(std::count(zone, zone + kGuardBytes, kPoison)));
  return bytes;
}

}  // namespace collctl::cmd
