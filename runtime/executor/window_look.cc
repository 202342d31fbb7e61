#include "runtime/executor/window_look.h"

#include <cstring>

#include "base/log.h"

namespace collctl::runtime {
namespace {

using kernels::cuda::MemoryRead;

constexpr uint64_t kCopyBytes = 64 << 10;
constexpr int64_t kCopyLimitNs = 200'000'000;

}  // namespace

Result<WindowLook> WindowLook::make(const transport::DevicePointer& device) {
  WindowLook made;
  COLL_ASSIGN(made.copies_, transport::PinnedMemory::make(device, kCopyBytes));
  COLL_ASSIGN(made.stream_, transport::DeviceStream::make(device));
  return made;
}

bool WindowLook::read(std::span<const MemoryRead> list) {
  const auto copied = [&]() -> Status {
    // A copy that was late the last time must not arrive over this.
    COLL_TRY(stream_.synchronize(Deadline::after_ns(kCopyLimitNs)));
    uint64_t at = 0;
    for (const MemoryRead& one : list) {
      if (one.bytes > kCopyBytes - at)
        return Error(ErrorCode::defect, "more is read at once than there is room for");
      COLL_TRY(stream_.copy(copies_.data() + at, one.from, one.bytes));
      at += one.bytes;
    }
    return stream_.synchronize(Deadline::after_ns(kCopyLimitNs));
  };
  if (const Status done = copied(); !done) {
    COLL_INFO(p2p, "peer memory cannot be looked at: {}", done.error().chain());
    return false;
  }
  uint64_t at = 0;
  for (const MemoryRead& one : list) {
    std::memcpy(one.to, copies_.data() + at, one.bytes);
    at += one.bytes;
  }
  return true;
}

std::optional<kernels::WindowWait> WindowLook::look(const kernels::cuda::Launcher& launcher,
                                                    const kernels::cuda::PeerMemory& memory) {
  kernels::cuda::WindowStand stand;
  const bool known = launcher.window_stand != nullptr && memory.base != nullptr &&
                     launcher.window_stand(
                         memory, [this](auto list) { return read(list); }, stand);
  if (!known || !stand.inside || stand.missing.empty()) {
    last_.reset();
    return {};
  }
  const uint64_t number = stand.ended + 1;
  const bool same = last_ && last_->number == number;
  last_ = {number, std::move(stand.missing), same ? last_->since_ns : now_ns()};
  return last_;
}

}  // namespace collctl::runtime
