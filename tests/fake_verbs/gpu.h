// Memory of GPUs as an adapter sees it: whose it is, and moving bytes to and from it. A real GPU's
// memory is moved by the driver of the process that has it; a fake one's is the host's.
#pragma once
#include <cstddef>
#include <cstdint>

namespace fake_verbs {

struct GpuMemory {
  int gpu = -1;         // ordinal; -1: the host's memory
  bool driver = false;  // only the driver can touch it
  uint64_t address = 0;
};
// Behind an address of this process.
GpuMemory memory_behind(const void* at);
// Behind a descriptor of a range, `offset` into it, for `bytes`; `iova` is the address itself. gpu
// -1: the descriptor is not one, or its range is shorter.
GpuMemory memory_behind(int fd, uint64_t offset, uint64_t bytes, uint64_t iova);

// Called by the process that has the memory. False: the driver refuses.
bool read_memory(const GpuMemory& from, void* to, size_t bytes);
bool write_memory(const GpuMemory& to, const void* from, size_t bytes);

}  // namespace fake_verbs
