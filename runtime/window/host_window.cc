#include "runtime/window/host_window.h"

#include <algorithm>

#include "base/host_facts.h"
#include "base/log.h"
#include "runtime/window/shared_file.h"
#include "runtime/window/shared_parts.h"

namespace collctl::runtime {
namespace {

constexpr uint64_t kWindowFdTag = 0x57494e444f57;  // with the communicator's hash

struct Layout {
  uint64_t lines_bytes = 0, stride = 0;
};
// A rank's part: the lines of all channels, then the banks channel by channel.
Layout layout_of(const HostWindow::Options& o) {
  Layout layout;
  layout.lines_bytes = whole_shared_pages(uint64_t(o.channels) * kernels::kWindowBanks *
                                          sizeof(kernels::WindowLine));
  layout.stride = layout.lines_bytes +
                  whole_shared_pages(uint64_t(o.channels) * kernels::kWindowBanks * o.bank_bytes);
  return layout;
}

// Maps the pages that small operations of all ranks take in turn: else each of some hundred
// operations would wait for a page. Every rank has reserved its part, and none has an operation
// yet.
void touch(const kernels::Window& window) {
  const uint64_t page = base::page_bytes();
  const uint64_t bytes = std::min(kernels::kPlacesBytes / uint64_t(window.nranks),
                                  window.bank_bytes);  // place_in_bank
  for (int rank = 0; rank < window.nranks; ++rank)
    for (uint64_t bank = 0; bank < kernels::kWindowBanks; ++bank)
      for (uint64_t at = 0; at < bytes; at += page) {
        volatile uint8_t* const byte = window.bank(rank, bank) + at;
        if (rank == window.rank)
          *byte = 0;
        else
          static_cast<void>(*byte);
      }
}

}  // namespace

Result<std::unique_ptr<HostWindow>> HostWindow::make(const Options& o, std::string& why_not,
                                                     Deadline deadline) {
  const Layout layout = layout_of(o);
  COLL_ASSIGN(base::Mapping mapped, map_shared_parts({.rank = o.rank,
                                                      .nranks = o.nranks,
                                                      .part_bytes = layout.stride,
                                                      .tag = kWindowFdTag ^ o.comm_hash,
                                                      .bootstrap = o.bootstrap},
                                                     why_not, deadline));
  std::vector<uint8_t> reserved(size_t(o.nranks));
  reserved[size_t(o.rank)] = mapped.get() != nullptr ? 1 : 0;
  COLL_TRY_IN(o.bootstrap->all_gather(reserved.data(), 1, deadline), "window");
  if (std::count(reserved.begin(), reserved.end(), 0) > 0) return std::unique_ptr<HostWindow>();
  std::unique_ptr<HostWindow> window(new HostWindow);
  window->memory_ = std::move(mapped);
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
    touch(window->windows_.back());
  }
  COLL_INFO(init, "Window : {} channels, {} bytes of each of {} ranks", o.channels, layout.stride,
            o.nranks);
  return window;
}

}  // namespace collctl::runtime
