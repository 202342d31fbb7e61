#include "runtime/window/memory.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <map>
#include <mutex>
#include <utility>

#include "base/format.h"
#include "base/host_facts.h"
#include "base/host_limits.h"
#include "base/log.h"
#include "runtime/window/shared_file.h"

namespace collctl::runtime {
namespace {

// Memory is given by the kernel, page by page: a machine that takes longer is not well.
constexpr double kReserveSeconds = 60;
// Freed ranges to remember, so that misuse can be told from foreign memory.
constexpr size_t kFreedKept = 256;
constexpr const char* kAllocateHint = "memory for windows must be from allocate_window_memory()";

}  // namespace

// Never destroyed: communicators that live to the end of the process hold segments.
struct SegmentRegistry {
  struct Freed {
    const uint8_t* begin;
    uint64_t bytes;
  };
  std::mutex mutex;
  std::map<const uint8_t*, std::shared_ptr<WindowSegment>> live;
  std::deque<Freed> freed;
  uint64_t last_id = 0;

  static SegmentRegistry& instance() {
    static auto& registry = *new SegmentRegistry;
    return registry;
  }
  std::shared_ptr<WindowSegment> at(const uint8_t* address) const {
    auto after = live.upper_bound(address);
    if (after == live.begin()) return nullptr;
    const auto& segment = std::prev(after)->second;
    return uint64_t(address - segment->data()) < segment->bytes() ? segment : nullptr;
  }
  bool was_freed(const uint8_t* address) const {
    for (const Freed& f : freed)
      if (address >= f.begin && uint64_t(address - f.begin) < f.bytes) return true;
    return false;
  }
  Error unknown(const void* address) const {
    return {ErrorCode::usage,
            format("the memory at {} {}", address,
                   was_freed(static_cast<const uint8_t*>(address))
                       ? "has already been freed"
                       : "was not allocated for windows, so it cannot be shared with other ranks"),
            kAllocateHint};
  }
};

WindowSegment::~WindowSegment() = default;

Result<base::Fd> WindowSegment::export_fd() const {
  if (device_ != nullptr) return memory_.export_fd();
  base::Fd copy(::fcntl(fd_.get(), F_DUPFD_CLOEXEC, 0));
  if (!copy) return base::errno_error(ErrorCode::unavailable, "a descriptor of memory", errno);
  return copy;
}

Result<void*> allocate_window_memory(uint64_t bytes, transport::DevicePointer device) {
  if (bytes == 0) return Error(ErrorCode::usage, "a window's memory of 0 bytes");
  std::shared_ptr<WindowSegment> segment(new WindowSegment);
  if (device != nullptr) {
    COLL_ASSIGN(segment->memory_, transport::DeviceMemory::make(device, bytes, true));
    segment->data_ = segment->memory_.data();
    segment->bytes_ = segment->memory_.held_bytes();
    segment->device_ = std::move(device);
  } else {
    // The kernel would try, and end this or another process when nothing is left.
    const uint64_t most =
        std::min(base::physical_memory(), base::cgroup_limits().memory_bytes.value_or(UINT64_MAX));
    if (bytes > most)
      return Error(ErrorCode::unavailable, format("{} bytes of memory to share are more than this "
                                                  "process may have ({})",
                                                  bytes, most));
    const uint64_t whole = whole_shared_pages(bytes);
    COLL_ASSIGN(segment->fd_, make_shared_file(whole));
    COLL_TRY(reserve_shared_file(segment->fd_.get(), 0, whole,
                                 Deadline::after_seconds(kReserveSeconds)));
    void* at = ::mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_SHARED, segment->fd_.get(), 0);
    if (at == MAP_FAILED)
      return base::errno_error(ErrorCode::unavailable,
                               format("map {} bytes of shared memory", whole), errno);
    segment->mapping_ = base::Mapping(at, whole);
    segment->data_ = static_cast<uint8_t*>(at);
    segment->bytes_ = whole;
  }
  SegmentRegistry& registry = SegmentRegistry::instance();
  const std::lock_guard lock(registry.mutex);
  segment->id_ = ++registry.last_id;
  // The kernel may give addresses anew.
  std::erase_if(registry.freed, [&](const SegmentRegistry::Freed& f) {
    return f.begin < segment->data_ + segment->bytes_ && segment->data_ < f.begin + f.bytes;
  });
  void* const data = segment->data_;
  registry.live.emplace(segment->data_, std::move(segment));
  return data;
}

Status free_window_memory(void* address) {
  SegmentRegistry& registry = SegmentRegistry::instance();
  std::shared_ptr<WindowSegment> gone;  // unmapped outside the lock
  const std::lock_guard lock(registry.mutex);
  const auto* const at = static_cast<const uint8_t*>(address);
  gone = registry.at(at);
  if (gone == nullptr) return registry.unknown(address);
  if (gone->data() != at)
    return Error(ErrorCode::usage, format("the memory at {} is inside an allocation that begins at "
                                          "{}",
                                          address, static_cast<const void*>(gone->data())));
  if (gone->holds_ > 0)
    return Error(ErrorCode::usage,
                 format("the memory at {} is still registered ({} times)", address, gone->holds_),
                 "deregister its windows first");
  registry.live.erase(at);
  registry.freed.push_back({gone->data(), gone->bytes()});
  if (registry.freed.size() > kFreedKept) registry.freed.pop_front();
  return {};
}

WindowMemoryUsage window_memory_usage() {
  SegmentRegistry& registry = SegmentRegistry::instance();
  const std::lock_guard lock(registry.mutex);
  WindowMemoryUsage usage;
  for (const auto& [at, segment] : registry.live) {
    ++usage.segments;
    usage.bytes += segment->bytes();
  }
  return usage;
}

Result<WindowHold> WindowHold::of(const void* address, uint64_t bytes) {
  SegmentRegistry& registry = SegmentRegistry::instance();
  const std::lock_guard lock(registry.mutex);
  const auto* const at = static_cast<const uint8_t*>(address);
  WindowHold hold;
  auto segment = registry.at(at);
  if (segment == nullptr) return registry.unknown(address);
  const uint64_t left = segment->bytes() - uint64_t(at - segment->data());
  if (bytes > left)
    return Error(ErrorCode::usage, format("{} bytes at {} end {} bytes beyond their allocation",
                                          bytes, address, bytes - left));
  ++segment->holds_;
  hold.segment_ = std::move(segment);
  return hold;
}

WindowHold& WindowHold::operator=(WindowHold&& other) noexcept {
  if (this == &other) return *this;
  release();
  segment_ = std::move(other.segment_);
  return *this;
}

WindowHold::~WindowHold() {
  release();
}

void WindowHold::release() {
  if (segment_ == nullptr) return;
  const std::lock_guard lock(SegmentRegistry::instance().mutex);
  --segment_->holds_;
  segment_.reset();  // not the last one: the registry keeps what is held
}

}  // namespace collctl::runtime
