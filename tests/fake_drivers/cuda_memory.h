// The parts of the fake driver's memory, for the files that hand it out. Under the world's mutex.
#pragma once
#include "tests/fake_drivers/cuda_world.h"

namespace fake_cuda {

inline constexpr uint64_t kIpcMagic = 0x4b4146435049ull, kFabricMagic = 0x434952424146ull;

struct Plain {
  int ordinal = 0, fd = -1;
  uint64_t bytes = 0;
  bool imported = false;
};
// By address.
std::map<uintptr_t, Plain>& plain_memory();
// A memory file that names whose memory it is, also to another process; less than 0: none.
int memory_file(int ordinal, uint64_t bytes);
// Takes them from the device. False: so much is not left.
bool take_bytes(int ordinal, uint64_t bytes);

// The contents of memory's names.
struct IpcData {
  uint64_t magic, bytes;
  int pid, fd, ordinal;
};
struct IpcBytes {
  char bytes[64];
};

}  // namespace fake_cuda
