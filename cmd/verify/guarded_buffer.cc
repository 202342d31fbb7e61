#include "cmd/verify/guarded_buffer.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/format.h"
#include "base/log.h"
#include "runtime/window/memory.h"

namespace collctl::cmd {

namespace {

constexpr double kCopySeconds = 60;  // of one block, also on a busy machine
constexpr uint64_t kMostPeriod = uint64_t(1) << 20;
constexpr const char* kSmaller = "use a smaller --max-bytes";

}  // namespace

Result<std::shared_ptr<DeviceBlocks>> DeviceBlocks::make(transport::DevicePointer device,
                                                         uint64_t largest) {
  constexpr uint64_t kStep = uint64_t(64) << 10;
  const uint64_t steps = (std::clamp(largest, kMostPeriod, kMostBlockBytes) + kStep - 1) / kStep;
  auto made = std::make_shared<DeviceBlocks>();
  made->device_ = std::move(device);
  COLL_ASSIGN(made->stream_, transport::DeviceStream::make(made->device_));
  for (auto& block : made->blocks_) {
    COLL_ASSIGN(block, transport::PinnedMemory::make(made->device_, steps * kStep));
  }
  return made;
}

Status DeviceBlocks::wait() const {
  return stream_.synchronize(Deadline::after_seconds(kCopySeconds));
}

GuardedBuffer::GuardedBuffer(std::shared_ptr<DeviceBlocks> blocks, bool for_windows)
    : blocks_(std::move(blocks)), for_windows_(for_windows) {}

GuardedBuffer::~GuardedBuffer() {
  release();
}

void GuardedBuffer::release() {
  if (std::exchange(kept_, false)) base_ = nullptr;
  if (base_ != nullptr && for_windows_) {
    if (const Status freed = runtime::free_window_memory(base_); !freed)
      COLL_WARN("a buffer is not given back: {}", freed.error().chain());
  } else if (base_ != nullptr && !blocks_) {
    munmap(base_, allocated_bytes());
  }
  memory_ = transport::DeviceMemory();
  base_ = nullptr;
  capacity_ = 0;
}

GuardedBuffer::GuardedBuffer(GuardedBuffer&& other) noexcept {
  *this = std::move(other);
}

GuardedBuffer& GuardedBuffer::operator=(GuardedBuffer&& other) noexcept {
  std::swap(blocks_, other.blocks_);
  std::swap(for_windows_, other.for_windows_);
  std::swap(kept_, other.kept_);
  std::swap(memory_, other.memory_);
  std::swap(base_, other.base_);
  std::swap(capacity_, other.capacity_);
  std::swap(shift_, other.shift_);
  return *this;
}

Status GuardedBuffer::reserve(uint64_t bytes) {
  if (base_ != nullptr && bytes <= capacity_) return {};
  release();
  if (bytes > UINT64_MAX / 4)
    return Error{ErrorCode::unavailable, format("a buffer of {} bytes", bytes), kSmaller};
  const uint64_t rounded =
      std::max<uint64_t>(1, (bytes + kGuardBytes - 1) / kGuardBytes) * kGuardBytes;
  if (for_windows_) return reserve_for_windows(rounded);
  return blocks_ ? reserve_device(rounded) : reserve_host(rounded);
}

Status GuardedBuffer::reserve_for_windows(uint64_t bytes) {
  auto memory = runtime::allocate_window_memory(bytes + 3 * kGuardBytes,
                                                blocks_ ? blocks_->device() : nullptr);
  if (!memory) {
    Error error = std::move(memory.error());
    if (error.hint.empty()) error.hint = format("{} or fewer ranks on this host", kSmaller);
    return std::move(error).within(format("allocate a buffer of {} bytes for a window", bytes));
  }
  base_ = static_cast<uint8_t*>(*memory);
  capacity_ = bytes;
  return {};
}

Status GuardedBuffer::reserve_host(uint64_t bytes) {
  void* memory = mmap(nullptr, bytes + 3 * kGuardBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    Error error = base::errno_error(ErrorCode::unavailable,
                                    format("allocate a buffer of {} bytes", bytes), errno);
    error.hint = format("{} or fewer ranks on this host", kSmaller);
    return error;
  }
  base_ = static_cast<uint8_t*>(memory);
  capacity_ = bytes;
  return {};
}

Status GuardedBuffer::reserve_device(uint64_t bytes) {
  // Memory that others could map, where the driver has such: the installed NCCL can register it.
  const bool shared = blocks_->device()->facts().fd_handles;
  auto memory = transport::DeviceMemory::make(blocks_->device(), bytes + 3 * kGuardBytes, shared);
  if (!memory) {
    Error error = std::move(memory.error());
    if (error.hint.empty()) error.hint = kSmaller;
    return std::move(error).within(format("allocate a buffer of {} bytes", bytes));
  }
  memory_ = std::move(*memory);
  base_ = memory_.data();
  capacity_ = bytes;
  return {};
}

void GuardedBuffer::keep_allocated() {
  COLL_CHECK(!blocks_);
  kept_ = true;
}

void GuardedBuffer::misalign(uint64_t bytes) {
  COLL_CHECK(bytes < kGuardBytes);
  shift_ = bytes;
}

Status GuardedBuffer::fill(uint8_t* from, uint8_t value, uint64_t bytes) {
  if (bytes == 0) return {};
  if (blocks_) return blocks_->fill(from, value, bytes);
  std::memset(from, value, bytes);
  return {};
}

Status GuardedBuffer::set_guards(uint64_t used) {
  COLL_CHECK(base_ != nullptr && used <= capacity_);
  COLL_TRY(fill(data() - kGuardBytes, kPoison, kGuardBytes));
  COLL_TRY(fill(data() + used, kPoison, kGuardBytes));
  return blocks_ ? blocks_->wait() : Status();
}

Status GuardedBuffer::poison(uint64_t used) {
  COLL_CHECK(base_ != nullptr && used <= capacity_);
  COLL_TRY(fill(data() - kGuardBytes, kPoison, used + 2 * kGuardBytes));
  return blocks_ ? blocks_->wait() : Status();
}

Status GuardedBuffer::zero(uint64_t bytes) {
  COLL_CHECK(base_ != nullptr && bytes <= capacity_);
  COLL_TRY(fill(data(), 0, bytes));
  return blocks_ ? blocks_->wait() : Status();
}

Status GuardedBuffer::write(uint64_t at, uint64_t bytes, uint64_t period, const Put& put) {
  COLL_CHECK(base_ != nullptr && at + bytes <= capacity_ && period <= kMostPeriod);
  if (bytes == 0) return {};
  uint8_t* to = data() + at;
  if (!blocks_) {
    put(to, 0, bytes);
    return {};
  }
  const uint64_t block = blocks_->block_bytes();
  if (period == 0) {
    for (uint64_t done = 0; done < bytes; done += block) {
      const uint64_t piece = std::min(block, bytes - done);
      put(blocks_->block(0), done, piece);
      COLL_TRY(blocks_->copy(to + done, blocks_->block(0), piece));
      COLL_TRY(blocks_->wait());
    }
    return {};
  }
  // Whole periods from the host, the rest by the device from what it has: doubling.
  const uint64_t head = std::min(bytes, block / period * period);
  put(blocks_->block(0), 0, head);
  COLL_TRY(blocks_->copy(to, blocks_->block(0), head));
  for (uint64_t done = head; done < bytes;) {
    const uint64_t piece = std::min(done, bytes - done);
    COLL_TRY(blocks_->copy(to + done, to, piece));
    done += piece;
  }
  return blocks_->wait();
}

Status GuardedBuffer::look_at(const uint8_t* from, uint64_t bytes, const Look& look) const {
  if (bytes == 0) return {};
  if (!blocks_) {
    look(from, 0, bytes);
    return {};
  }
  // The next block is on its way while one is looked at.
  const uint64_t block = blocks_->block_bytes();
  COLL_TRY(blocks_->copy(blocks_->block(0), from, std::min(block, bytes)));
  int which = 0;
  for (uint64_t done = 0; done < bytes; done += block, which ^= 1) {
    COLL_TRY(blocks_->wait());
    if (const uint64_t next = done + block; next < bytes)
      COLL_TRY(
          blocks_->copy(blocks_->block(which ^ 1), from + next, std::min(block, bytes - next)));
    look(blocks_->block(which), done, std::min(block, bytes - done));
  }
  return {};
}

Status GuardedBuffer::read(uint64_t at, uint64_t bytes, const Look& look) const {
  COLL_CHECK(base_ != nullptr && at + bytes <= capacity_);
  return look_at(data() + at, bytes, look);
}

Result<uint64_t> GuardedBuffer::damaged(uint64_t used) const {
  COLL_CHECK(base_ != nullptr && used <= capacity_);
  uint64_t bytes = 0;
  const auto count = [&](const uint8_t* zone, uint64_t, uint64_t n) {
    bytes += n - uint64_t(std::count(zone, zone + n, kPoison));
  };
  COLL_TRY(look_at(data() - kGuardBytes, kGuardBytes, count));
  COLL_TRY(look_at(data() + used, kGuardBytes, count));
  return bytes;
}

}  // namespace collctl::cmd
