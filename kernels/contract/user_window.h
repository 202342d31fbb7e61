// A window of users' memory as kernels and host code of one rank see it: all members of the rank's
// team (the ranks whose memory it maps) side by side, each at the same distance from the one
// before. The runtime makes it (runtime/window/user_window.h); whoever holds the registration uses
// it.
//
// On GPU ranks there are two copies with the same contents, one in the GPU's memory for kernels and
// the host's shadow of it; each says where the other one is. On CPU ranks both are one.
// Ownership: the runtime's, until the window is deregistered. Bounds are the caller's to keep.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/contract/types.h"

namespace collctl::kernels {

struct UserWindow {
  uint8_t* base;    // where the window of team rank 0 begins
  uint64_t stride;  // bytes from one member's window to the next one's
  uint64_t bytes;   // of each member's window
  uint64_t number;  // from 1, the same on all ranks
  const UserWindow* shadow;
  const UserWindow* device;
  int32_t team_rank, team_size;
  int32_t rank, nranks;  // in the communicator
};
static_assert(sizeof(UserWindow) == 64 && offsetof(UserWindow, shadow) == 32);

COLL_FN uint8_t* window_peer(const UserWindow& w, int team_rank, uint64_t offset) {
  return w.base + uint64_t(team_rank) * w.stride + offset;
}
COLL_FN uint8_t* window_local(const UserWindow& w, uint64_t offset) {
  return window_peer(w, w.team_rank, offset);
}

}  // namespace collctl::kernels
