// The torn-store test, which LL128 needs of a path: whether 128 bytes that one GPU stores at once
// into another's memory arrive at once. Every rank writes numbered lines into each other rank's
// part of the device window and watches its own part; lines whose flag is new and whose data is old
// are torn. Start-up's thread, all ranks together; some milliseconds.
#pragma once
#include <memory>
#include <string>

#include "base/result.h"
#include "kernels/cuda/launch.h"
#include "runtime/bootstrap/bootstrap.h"
#include "transport/device/device.h"

namespace collctl::runtime {

struct TornStoreOptions {
  transport::DevicePointer device;
  const kernels::cuda::Launcher* launcher = nullptr;
  kernels::cuda::PeerMemory window;  // zero before and after
  uint64_t part_bytes = 0;           // of each rank
  Bootstrap* bootstrap = nullptr;
  double wait_s = 10;  // for the kernels of one rank; readers abort by themselves before
};

// The test's kernels on a GPU that did not end them, with what they use: to be kept until they have
// ended, or for ever.
class UnendedTornStoreTest {
 public:
  virtual ~UnendedTornStoreTest() = default;
  virtual bool ended() const = 0;
};

struct TornStoreVerdict {
  std::string why;  // empty: all lines of all pairs arrived whole; the same text on all ranks
  // Some rank's kernels may still write into the window, or left it other than zero, so nobody may
  // use it; on all ranks.
  bool window_lost = false;
  std::unique_ptr<UnendedTornStoreTest> unended;  // this rank's, or null
};
// Errors: the exchange itself failed (lost, deadline).
Result<TornStoreVerdict> test_torn_stores(const TornStoreOptions& options, Deadline deadline);

}  // namespace collctl::runtime
