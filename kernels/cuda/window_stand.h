// Launcher::window_stand of the window kernels. A rank that has begun an operation has left
// something of it at a peer: its lines, a chunk in a slot, or a word that it is there
// (window_layout.h). None ends an operation before all have begun it.
#pragma once
#include "kernels/cuda/launch.h"

namespace collctl::kernels::cuda {

bool window_stand(const PeerMemory& memory, const ReadMemory& read, WindowStand& stand);

}  // namespace collctl::kernels::cuda
