#include "runtime/window/pinned_window.h"

#include "base/log.h"
#include "runtime/window/shared_file.h"

namespace collctl::runtime {
namespace {

constexpr uint64_t kPinnedFdTag = 0x50494e57494e;  // with the communicator's hash

}  // namespace

Result<std::unique_ptr<PinnedWindow>> PinnedWindow::make(const Options& o, std::string& why_not,
                                                         Deadline deadline) {
  const uint64_t stride = whole_shared_pages(o.part_bytes);
  COLL_ASSIGN(base::Mapping mapped, map_shared_parts({.rank = o.rank,
                                                      .nranks = o.nranks,
                                                      .part_bytes = stride,
                                                      .tag = kPinnedFdTag ^ o.comm_hash,
                                                      .bootstrap = o.bootstrap},
                                                     why_not, deadline));
  if (mapped.get() == nullptr) return std::unique_ptr<PinnedWindow>();
  std::unique_ptr<PinnedWindow> window(new PinnedWindow);
  window->mapped_ = std::move(mapped);
  auto pinned =
      transport::PinnedMemory::over(o.device, window->mapped_.get(), window->mapped_.size());
  if (!pinned) {
    why_not = pinned.error().chain();
    return std::unique_ptr<PinnedWindow>();
  }
  window->pinned_ = std::move(*pinned);
  window->memory_ = {
      .base = window->pinned_.data(), .stride = stride, .rank = o.rank, .nranks = o.nranks};
  COLL_INFO(init, "Window : {} bytes of host memory of each of {} ranks, for operations by LL",
            stride, o.nranks);
  return window;
}

}  // namespace collctl::runtime
