// The test that LL128 wants of a path: whether 128 bytes that one GPU stores at once into another's
// memory arrive at once. Every rank writes numbered lines into each other rank's part of the device
// window and watches its own part; lines whose flag is new and whose data is old are torn.
// Start-up's thread, all ranks together; some milliseconds.
#pragma once
#include <string>

#include "base/result.h"
#include "kernels/cuda/launch.h"
#include "runtime/bootstrap.h"
#include "transport/device/device.h"

namespace collctl::runtime {

struct LitmusOptions {
  transport::DevicePointer device;
  const kernels::cuda::Launcher* launcher = nullptr;
  kernels::cuda::PeerMemory window;  // zero before and after
  uint64_t part_bytes = 0;           // of each rank
  Bootstrap* bootstrap = nullptr;
};
// Empty when all lines of all pairs came whole, else what happened, the same words on all ranks.
// Errors: the exchange itself failed (lost, deadline).
Result<std::string> why_lines_tear(const LitmusOptions& options, Deadline deadline);

}  // namespace collctl::runtime
