// Whom a rank in a window kernel waits for, seen from outside (Launcher::window_stand): copies out
// of peer memory on a stream of its own, made only when somebody asks.
//
// Threads: any, one at a time; nothing here waits longer than kCopyLimitNs for the device.
// Ownership: the peer memory is others' and outlives this.
#pragma once
#include <cstdint>
#include <optional>

#include "kernels/cpu/wait_log.h"
#include "kernels/cuda/window_stand.h"
#include "transport/device/device.h"

namespace collctl::runtime {

class WindowLook {
 public:
  static Result<WindowLook> make(const transport::DevicePointer& device);
  // None: it waits for no such rank, or that is not known.
  std::optional<kernels::WindowWait> look(const kernels::cuda::Launcher& launcher,
                                          const kernels::cuda::PeerMemory& memory);

 private:
  bool read(std::span<const kernels::cuda::MemoryRead> list);

  std::optional<kernels::WindowWait> last_;
  transport::PinnedMemory copies_;
  transport::DeviceStream stream_;  // last: idle before its target goes
};

}  // namespace collctl::runtime
