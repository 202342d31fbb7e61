#include "cmd/measure/windows.h"

#include <utility>

#include "base/format.h"
#include "base/log.h"

namespace collctl::cmd {
namespace {

constexpr double kAlikeToldSeconds = 2;
constexpr double kWindowsGoodbyeSeconds = 5;  // after an error, for what is still under way

}  // namespace

// After an error, which says more than what goes wrong here.
BenchWindows::~BenchWindows() {
  if (const Status gone = give_back(Deadline::after_seconds(kWindowsGoodbyeSeconds)); !gone)
    COLL_WARN("--window: {}", gone.error().chain());
}

Status BenchWindows::add(std::span<GuardedBuffer* const> buffers, Deadline deadline) {
  std::vector<runtime::WindowRange> ranges;
  for (const GuardedBuffer* buffer : buffers)
    ranges.push_back({.address = buffer->allocation(), .bytes = buffer->allocated_bytes()});
  auto made = communicator_.register_windows(ranges, deadline);
  if (!made) {
    Error error = std::move(made.error());
    // All ranks are told alike: who left before the others were would be who they name. (Of a
    // usage error bench_rank knows that by itself.)
    if (error.code == ErrorCode::unavailable)
      (void)communicator_.barrier(deadline.earlier(Deadline::after_seconds(kAlikeToldSeconds)));
    if (error.rank < 0) error.rank = communicator_.rank();
    return std::move(error).within(format("rank {}: --window", communicator_.rank()));
  }
  windows_.insert(windows_.end(), made->begin(), made->end());
  return {};
}

Status BenchWindows::give_back(Deadline deadline) {
  if (windows_.empty()) return {};
  const std::vector<runtime::WindowPointer> gone = std::exchange(windows_, {});
  return communicator_.deregister_windows(gone, deadline);
}

uint64_t BenchWindows::bytes() const {
  uint64_t sum = 0;
  for (const auto& window : windows_) sum += window->bytes();
  return sum;
}

}  // namespace collctl::cmd
