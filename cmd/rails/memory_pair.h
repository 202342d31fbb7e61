// Measurements between memory of two hosts: both ends call try_memories at the same time with the
// same plan. All connections are made in parallel, so that those that hang cost one time-out
// together; then one measurement follows another: a window of messages each way for the pace, 8
// bytes to and fro, large messages one way, the other way and both at once, and the sizes of a
// curve. Data that arrived is compared each time, over memory that held something else before.
//
// Threads: the caller's, one for each connection while these are made, and one more while both
// directions run.
#pragma once
#include <map>
#include <vector>

#include "cmd/rails/memory_end.h"
#include "cmd/rails/pair.h"

namespace collctl::runtime {

// The memory of one host that all its measurements share.
class MemoryAreas {
 public:
  MemoryAreas(std::vector<transport::DevicePointer> gpus, uint32_t message_bytes)
      : gpus_(std::move(gpus)), message_bytes_(message_bytes) {}
  // kHostMemory, or the index of a GPU. Errors: as MemoryArea::make.
  Result<MemoryArea*> of(int gpu, bool sends);
  transport::DevicePointer device(int gpu) const {
    return gpu == kHostMemory ? nullptr : gpus_[size_t(gpu)];
  }
  uint32_t message_bytes() const { return message_bytes_; }

 private:
  std::vector<transport::DevicePointer> gpus_;
  uint32_t message_bytes_;
  std::map<std::pair<int, bool>, std::unique_ptr<MemoryArea>> made_;
};

// The results are in `trials`, alike on both ends. Errors are the peer's or the meeting's: then
// nothing more can be tried.
Status try_memories(const RailSide& side, MemoryAreas& areas, const MemorySizes& sizes,
                    std::vector<MemoryTrial>& trials);

}  // namespace collctl::runtime
