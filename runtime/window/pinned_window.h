// PinnedWindow: host memory that the GPUs of all ranks of a communicator read and write, for the
// window kernels' operations by LL and Simple (kernels/cuda/launch.h), where GPUs of one host do
// not reach each other's memory: one step through the host instead of the two and more of rings.
// Made at start-up, given back by the destructor. Start-up's thread.
//
// Memory of a rank: Launcher::window_host_bytes, for 2 ranks 18 MB, for 8 ranks 33, on its GPU's
// NUMA node; and window_own_bytes of its GPU.
#pragma once
#include <memory>
#include <string>

#include "base/fd.h"
#include "base/result.h"
#include "kernels/cuda/launch.h"
#include "runtime/window/shared_parts.h"
#include "transport/device/device.h"

namespace collctl::runtime {

class PinnedWindow {
 public:
  struct Options {
    int rank = 0, nranks = 1;
    uint64_t part_bytes = 0, own_bytes = 0;  // Launcher::window_host_bytes, window_own_bytes
    uint64_t comm_hash = 0;
    transport::DevicePointer device;
    Bootstrap* bootstrap = nullptr;
  };
  // All ranks together. Null when there is none, as of map_shared_parts().
  static Result<std::unique_ptr<PinnedWindow>> make(const Options& options, std::string& why_not,
                                                    Deadline deadline);
  kernels::cuda::PeerMemory memory() const { return memory_; }

 private:
  PinnedWindow() = default;
  kernels::cuda::PeerMemory memory_;
  transport::DeviceMemory own_;
  base::Mapping mapped_;
  transport::PinnedMemory pinned_;  // before what it pins goes
};

}  // namespace collctl::runtime
