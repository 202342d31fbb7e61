// Values that ranks of GPUs write into their windows and look for in the others', for the tests of
// those: memory of the fake driver's devices is this process's.
#pragma once
#include <cstdint>

#include "runtime/window/user_window.h"
#include "tests/unit/runtime/ranks.h"

namespace collctl::runtime::testing {

inline constexpr uint64_t kLookedAt = 5000;  // bytes of a window

inline uint8_t window_byte(int rank, uint64_t i) {
  return uint8_t(uint64_t(rank) * 71 + i * 3 + 1);
}

inline void fill_window(const Communicator& c, uint8_t* at) {
  for (uint64_t i = 0; i < kLookedAt; ++i) at[i] = window_byte(c.rank(), i);
}

// Whether the windows of the whole team hold what their owners have filled in.
inline bool right_bytes(const Communicator& c, Complaints& complaints, const UserWindow& window) {
  for (const int peer : window.team()) {
    const auto at = window.peer(peer, 0, kLookedAt);
    if (!at) {
      complaints.add(at.error().chain());
      return false;
    }
    for (uint64_t i = 0; i < kLookedAt; ++i)
      if ((*at)[i] != window_byte(peer, i)) {
        complaints.add(format("rank {}: byte {} of rank {}", c.rank(), i, peer));
        return false;
      }
  }
  return true;
}

}  // namespace collctl::runtime::testing
