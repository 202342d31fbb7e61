// Launcher::window_stand of the window kernels. A rank that has begun an operation has left
// something of it at a peer: its lines, a chunk in a slot, or a word that it is there
// (window_layout.h). None ends an operation before all have begun it.
#pragma once
#include <functional>
#include <span>
#include <vector>

#include "kernels/cuda/launch.h"

namespace collctl::kernels::cuda {

// How far a rank's window kernels have got, read out of peer memory from outside while they run:
// they do nothing for it. Messages are not looked at.
struct WindowStand {
  uint64_t ended = 0;        // operations that this rank has ended
  bool inside = false;       // it is in the next one
  std::vector<int> missing;  // then the ranks that have not begun that
};
struct MemoryRead {
  void* to;  // the host's
  const void* from;
  uint64_t bytes;
};
// Reads all of them, one after the other. False: it could not.
struct ReadMemory : std::function<bool(std::span<const MemoryRead>)> {
  using function::function;
};

bool window_stand(const PeerMemory& memory, const ReadMemory& read, WindowStand& stand);

}  // namespace collctl::kernels::cuda
