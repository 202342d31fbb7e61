// Times of window kernels between two GPUs of a job, the first rank's and the last one's (in two
// sockets they are the furthest apart): all-reduces of two sizes by each kernel, on streams, with
// nothing else there. Start-up's thread, all ranks together; some milliseconds, of which slow paths
// take the most.
#pragma once
#include <memory>
#include <string>

#include "kernels/cuda/launch.h"
#include "runtime/executor/joint_test.h"
#include "runtime/plan/calibration.h"
#include "transport/device/device.h"

namespace collctl::runtime {

struct WindowTimesOptions {
  transport::DevicePointer device;
  const kernels::cuda::Launcher* launcher = nullptr;
  Bootstrap* bootstrap = nullptr;
  kernels::cuda::PeerMemory memory;  // of all ranks; zero before and after
  uint32_t kernels = 0;              // that may be measured, a bit each of kCalibratedKernels
  int large_launches = 2;            // of sizes from 1 MiB on, at a time; the same on all ranks
  double wait_s = 10;                // for the kernels of one rank
};

struct WindowTimes {
  GpuCalibration found;  // the first rank's, on all ranks
  std::string why;       // empty: it went well; the same text on all ranks
  // Some rank's kernels may still write into the window, or left it other than zero, so nobody may
  // use it; on all ranks.
  bool memory_lost = false;
  std::unique_ptr<UnendedTest> unended;  // this rank's, or null
};
// Errors: the exchange itself failed (lost, deadline).
Result<WindowTimes> time_windows(const WindowTimesOptions& options, Deadline deadline);

}  // namespace collctl::runtime
