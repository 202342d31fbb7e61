// What making a communicator costs a rank: time, and memory of its GPU. Ours and another library's
// are watched in the same way (--vs). Used by bench_rank, BenchRun and Versus on the rank's thread.
#pragma once
#include <cstdint>

#include "cmd/measure/bench.h"
#include "transport/device/device.h"

namespace collctl::cmd {

// Counts from its making, and not between pause() and resume(), which is for what would be there
// anyway. Memory is what is free on the whole GPU: others that use it at the same time are counted.
class CostWatch {
 public:
  explicit CostWatch(transport::DevicePointer device);
  void pause();
  void resume();
  // The first result is there; paused then. buffer_bytes is left to the caller.
  StartCost done();

 private:
  transport::DevicePointer device_;
  bool running_ = false, known_ = true;
  int64_t since_ns_ = 0, counted_ns_ = 0;
  uint64_t free_ = 0;
  int64_t taken_ = 0;
};

}  // namespace collctl::cmd
