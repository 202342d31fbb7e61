// --window: the buffers of a measurement as windows, registered by all ranks together. Used by
// BenchRun and the soak on the rank's thread; borrows the communicator and the buffers.
#pragma once
#include <span>
#include <vector>

#include "cmd/verify/guarded_buffer.h"
#include "runtime/communicator/communicator.h"

namespace collctl::cmd {

class BenchWindows {
 public:
  explicit BenchWindows(runtime::Communicator& communicator) : communicator_(communicator) {}
  ~BenchWindows();  // gives back, when that was not done
  BenchWindows(const BenchWindows&) = delete;
  BenchWindows& operator=(const BenchWindows&) = delete;

  // Each in a window of its own, with its guards, so that any part of it lies in the window.
  // Buffers for windows, reserved, equally many and large on all ranks. Errors name the rank.
  Status add(std::span<GuardedBuffer* const> buffers, Deadline deadline);
  // Waits for what was started on them.
  Status give_back(Deadline deadline);
  uint64_t bytes() const;  // registered

 private:
  runtime::Communicator& communicator_;
  std::vector<runtime::WindowPointer> windows_;
};

}  // namespace collctl::cmd
