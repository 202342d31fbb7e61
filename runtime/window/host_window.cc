#include "runtime/window/host_window.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>

#include "base/format.h"
#include "base/log.h"
#include "runtime/window/shared_file.h"

namespace collctl::runtime {
namespace {

constexpr uint64_t kWindowFdTag = 0x57494e444f57;  // with the communicator's hash

struct Layout {
  uint64_t lines_bytes = 0, stride = 0, total = 0;
};
// A rank's part: the lines of all channels, then the banks channel by channel.
Layout layout_of(const HostWindow::Options& o) {
  Layout layout;
  layout.lines_bytes = whole_shared_pages(uint64_t(o.channels) * kernels::kWindowBanks *
                                          sizeof(kernels::WindowLine));
  layout.stride = layout.lines_bytes +
                  whole_shared_pages(uint64_t(o.channels) * kernels::kWindowBanks * o.bank_bytes);
  layout.total = layout.stride * uint64_t(o.nranks);
  return layout;
}

// Maps all parts and reserves the own one; empty with the reason when there is no room.
base::Mapping map_file(int fd, const Layout& layout, int rank, Deadline deadline,
                       std::string& why) {
  const Status room =
      reserve_shared_file(fd, layout.stride * uint64_t(rank), layout.stride, deadline);
  if (!room) {
    why = room.error().chain();
    return {};
  }
  void* at = ::mmap(nullptr, layout.total, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) {
    why = base::errno_error(ErrorCode::unavailable,
                            format("map {} bytes of shared memory", layout.total), errno)
              .message;
    return {};
  }
  return {at, layout.total};
}

}  // namespace

Result<std::unique_ptr<HostWindow>> HostWindow::make(const Options& o, std::string& why_not,
                                                     Deadline deadline) {
  const Layout layout = layout_of(o);
  why_not.clear();
  Fd fd;
  if (o.rank == 0) {
    auto made = make_shared_file(layout.total);
    if (made)
      fd = std::move(*made);
    else
      why_not = made.error().chain();
  }
  // Whether a descriptor will arrive.
  std::vector<uint8_t> made(static_cast<size_t>(o.nranks));
  made[size_t(o.rank)] = fd ? 1 : 0;
  COLL_TRY_IN(o.bootstrap->all_gather(made.data(), 1, deadline), "window");
  if (made[0] == 0) return std::unique_ptr<HostWindow>();
  const uint64_t tag = kWindowFdTag ^ o.comm_hash;
  if (o.rank == 0) {
    for (int peer = 1; peer < o.nranks; ++peer)
      COLL_TRY_IN(o.bootstrap->send_fd(peer, tag, fd.get(), deadline), "window");
  } else {
    COLL_ASSIGN(fd, o.bootstrap->recv_fd(0, tag, deadline));
    COLL_TRY(check_shared_file(fd.get(), layout.total, 0));
  }
  std::unique_ptr<HostWindow> window(new HostWindow);
  window->memory_ = map_file(fd.get(), layout, o.rank, deadline, why_not);
  if (window->memory_.get() == nullptr) return std::unique_ptr<HostWindow>();
  for (int channel = 0; channel < o.channels; ++channel) {
    const uint64_t first_bank = uint64_t(channel) * kernels::kWindowBanks;
    window->windows_.push_back({.base = static_cast<uint8_t*>(window->memory_.get()),
                                .stride = layout.stride,
                                .lines = first_bank * sizeof(kernels::WindowLine),
                                .banks = layout.lines_bytes + first_bank * o.bank_bytes,
                                .bank_bytes = o.bank_bytes,
                                .arrivals = 0,
                                .pieces = 0,
                                .rank = o.rank,
                                .nranks = o.nranks});
  }
  COLL_INFO(init, "Window : {} channels, {} bytes of each of {} ranks", o.channels, layout.stride,
            o.nranks);
  return window;
}

}  // namespace collctl::runtime
