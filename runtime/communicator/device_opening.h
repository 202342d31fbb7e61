// Opens a rank's GPU on a separate thread, while the bootstrap runs. A driver that hangs cannot
// be interrupted: then the thread is left behind, and the deadline's error says where it is. Used
// by the communicator's start-up, on its thread.
#pragma once
#include <memory>

#include "base/result.h"
#include "kernels/cuda/launch.h"
#include "transport/device/device.h"

namespace collctl::runtime {

class DeviceOpening {
 public:
  // Opens CUDA ordinal `device`, checks whether the launcher's kernels run there, and loads them.
  DeviceOpening(int device, const kernels::cuda::Launcher& launcher, bool counts_waits);
  ~DeviceOpening();
  DeviceOpening(const DeviceOpening&) = delete;
  DeviceOpening& operator=(const DeviceOpening&) = delete;
  // Once. Errors: the GPU's (unavailable, usage), deadline.
  Result<transport::DevicePointer> wait(Deadline deadline);
  double seconds() const;  // how long it took; after wait()

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
  int device_;
};

}  // namespace collctl::runtime
