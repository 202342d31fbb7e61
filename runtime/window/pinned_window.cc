#include "runtime/window/pinned_window.h"

#include <algorithm>
#include <vector>

#include "base/host_facts.h"
#include "base/log.h"
#include "base/numa.h"
#include "runtime/window/shared_file.h"

namespace collctl::runtime {
namespace {

constexpr uint64_t kPinnedFdTag = 0x50494e57494e;  // with the communicator's hash

}  // namespace

Result<std::unique_ptr<PinnedWindow>> PinnedWindow::make(const Options& o, std::string& why_not,
                                                         Deadline deadline) {
  const uint64_t stride = whole_shared_pages(o.part_bytes);
  base::Mapping mapped;
  {
    const base::PreferredNode near(base::pci_numa_node(o.device->facts().bus_id));
    COLL_ASSIGN(mapped, map_shared_parts({.rank = o.rank,
                                          .nranks = o.nranks,
                                          .part_bytes = stride,
                                          .tag = kPinnedFdTag ^ o.comm_hash,
                                          .bootstrap = o.bootstrap},
                                         why_not, deadline));
  }
  // Pinning takes the pages of all parts: each must have been reserved by its rank before.
  std::vector<uint8_t> reserved(static_cast<size_t>(o.nranks));
  reserved[size_t(o.rank)] = mapped.get() != nullptr ? 1 : 0;
  COLL_TRY_IN(o.bootstrap->all_gather(reserved.data(), 1, deadline), "window");
  if (std::count(reserved.begin(), reserved.end(), 0) > 0) return std::unique_ptr<PinnedWindow>();
  std::unique_ptr<PinnedWindow> window(new PinnedWindow);
  window->mapped_ = std::move(mapped);
  auto pinned =
      transport::PinnedMemory::over(o.device, window->mapped_.get(), window->mapped_.size());
  if (!pinned) {
    why_not = pinned.error().chain();
    return std::unique_ptr<PinnedWindow>();
  }
  window->pinned_ = std::move(*pinned);
  COLL_ASSIGN(window->own_, transport::DeviceMemory::make(o.device, o.own_bytes, false));
  COLL_TRY(o.device->zero(window->own_.data(), o.own_bytes));
  window->memory_ = {.base = window->pinned_.data(),
                     .stride = stride,
                     .rank = o.rank,
                     .nranks = o.nranks,
                     .own = window->own_.data()};
  COLL_INFO(init, "Window : {} bytes of host memory of each of {} ranks", stride, o.nranks);
  return window;
}

}  // namespace collctl::runtime
