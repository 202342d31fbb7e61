#include "runtime/window/device_window.h"

#include <algorithm>

#include "base/format.h"
#include "base/log.h"

namespace collctl::runtime {
namespace {

constexpr uint64_t kDeviceFdTag = 0x44455649434557;  // with the communicator's hash

// Prepares this rank before it has seen any peer's memory; returns the reason when it cannot.
Status prepare(const DeviceWindow::Options& o, transport::DeviceMemory& own,
               transport::FlatMemory& flat) {
  for (const transport::PeerInfo& peer : o.peers) COLL_TRY(o.device->reaches(peer));
  COLL_ASSIGN(own, transport::DeviceMemory::make(o.device, o.part_bytes, true));
  COLL_ASSIGN(flat, transport::FlatMemory::reserve(o.device, o.nranks, o.part_bytes));
  return flat.map(o.rank, own);
}

}  // namespace

Result<DeviceWindow::Made> DeviceWindow::make(const Options& o, std::string& why_not,
                                              Deadline deadline) {
  why_not.clear();
  std::unique_ptr<DeviceWindow> window(new DeviceWindow);
  window->rank_ = o.rank;
  window->nranks_ = o.nranks;
  COLL_INFO(init, "Window : mapping {} bytes of each of {} GPUs", o.part_bytes, o.nranks);
  Status mine = prepare(o, window->own_, window->flat_);
  base::Fd fd;
  if (mine) {
    auto exported = window->own_.export_fd();
    if (exported)
      fd = std::move(*exported);
    else
      mine = std::move(exported.error());
  }
  if (!mine) why_not = mine.error().chain();
  // Whether descriptors will arrive.
  std::vector<uint8_t> ready(static_cast<size_t>(o.nranks));
  ready[size_t(o.rank)] = fd ? 1 : 0;
  COLL_TRY_IN(o.bootstrap->all_gather(ready.data(), 1, deadline), "window");
  if (const auto without = std::find(ready.begin(), ready.end(), 0); without != ready.end())
    return Made{nullptr, int(without - ready.begin())};
  const uint64_t tag = kDeviceFdTag ^ o.comm_hash;
  for (int i = 1; i < o.nranks; ++i)
    COLL_TRY_IN(o.bootstrap->send_fd((o.rank + i) % o.nranks, tag, fd.get(), deadline), "window");
  for (int i = 1; i < o.nranks; ++i) {
    const int peer = (o.rank + o.nranks - i) % o.nranks;
    auto theirs = o.bootstrap->recv_fd(peer, tag, deadline);
    if (!theirs) return std::move(theirs.error()).within("window");
    if (!why_not.empty()) continue;
    if (Status mapped = window->flat_.map_fd(peer, theirs->get(), o.part_bytes); !mapped)
      why_not = format("memory of rank {}: {}", peer, mapped.error().chain());
  }
  if (!why_not.empty()) return Made();
  return Made{std::move(window)};
}

kernels::cuda::PeerMemory DeviceWindow::memory() const {
  return {.base = flat_.data(), .stride = flat_.stride(), .rank = rank_, .nranks = nranks_};
}

kernels::Window DeviceWindow::verbs() const {
  static_assert(kernels::kWindowBanks * sizeof(kernels::WindowLine) <= 4096);
  return {.base = flat_.data(),
          .stride = flat_.stride(),
          .lines = 0,
          .banks = kVerbsPartBytes - kernels::kWindowBanks * kVerbsBankBytes,
          .bank_bytes = kVerbsBankBytes,
          .arrivals = 0,
          .pieces = 0,
          .rank = rank_,
          .nranks = nranks_};
}

}  // namespace collctl::runtime
