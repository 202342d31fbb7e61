// The device window of a rank that a test runs as a thread over the fake driver's GPUs.
#pragma once
#include "runtime/window/device_window.h"
#include "tests/unit/runtime/bootstrap/bootstrap_job.h"

namespace collctl::runtime::testing {

struct RankWindow {
  transport::DevicePointer device;  // rank r drives GPU r
  std::unique_ptr<DeviceWindow> window;
};
// All ranks together.
inline Result<RankWindow> make_rank_window(Bootstrap& bootstrap, uint64_t part_bytes) {
  RankWindow made;
  const int me = bootstrap.rank();
  COLL_ASSIGN(made.device, transport::Device::open(me));
  std::vector<transport::PeerInfo> peers((size_t(bootstrap.size())));
  peers[size_t(me)].bus_id = made.device->facts().bus_number;
  COLL_TRY(bootstrap.all_gather(peers.data(), sizeof(transport::PeerInfo), soon()));
  std::string why_not;
  COLL_ASSIGN(DeviceWindow::Made window, DeviceWindow::make({.rank = me,
                                                             .nranks = bootstrap.size(),
                                                             .part_bytes = part_bytes,
                                                             .comm_hash = 77,
                                                             .device = made.device,
                                                             .peers = peers,
                                                             .bootstrap = &bootstrap},
                                                            why_not, soon()));
  COLL_TRY(expect(window.window != nullptr, "a window, not: " + why_not));
  made.window = std::move(window.window);
  return made;
}

}  // namespace collctl::runtime::testing
