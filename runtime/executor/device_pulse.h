// Whether the kernels on a GPU make progress, seen from outside: copies of their counters (steps of
// fifos, heads and tails, epochs of windows) on a stream of its own, compared with those of the
// look before. Costs the kernels nothing; it is asked only when progress is in doubt.
//
// Called by the CUDA executor: add() by the thread that launches, beats() by the one that watches.
// Nothing here waits. Ownership: what is watched is others' and outlives this.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "transport/device/device.h"

namespace collctl::runtime {

class DevicePulse {
 public:
  static Result<std::unique_ptr<DevicePulse>> make(const transport::DevicePointer& device);
  // Memory of this GPU, or pinned memory. Bytes beyond kMostBytes in all are left out: an operation
  // uses the first channels, which are added first.
  void add(const void* at, uint64_t bytes);
  // Takes the previous answer, if it has arrived, and asks again. True: something
  // differs. Errors: the driver's.
  Result<bool> beats();

  static constexpr uint64_t kMostBytes = 64 << 10;

 private:
  DevicePulse() = default;
  Result<bool> answer();
  Status ask();

  struct Place {
    const void* at;
    uint64_t bytes;
  };
  std::mutex mutex_;
  std::vector<Place> places_;
  uint64_t bytes_ = 0;  // of all places
  uint64_t asked_ = 0;  // bytes in flight; 0: none
  std::vector<uint8_t> seen_;
  transport::PinnedMemory answer_;
  transport::DeviceStream stream_;  // last: idle before its target goes
};

}  // namespace collctl::runtime
