// The traces of waits: for how long in all, by peer, and a note of one that goes on. Plain numbers
// in memory that the host can read.
#pragma once
#include <cstdint>

#include "kernels/contract/report.h"

namespace collctl::kernels {

struct PeerWait {
  uint64_t recv_ns = 0;  // for data from the peer
  uint64_t send_ns = 0;  // for the peer, or the network to it, to take data
  uint64_t waits = 0;
};

// Written again and again while a block of a kernel waits; nobody takes it back. Both times are the
// GPU's: what is not written anew has ended. Torn by chance, as the host reads while it is written.
struct WaitNote {
  Report wait;           // code none
  int64_t since_ns = 0;  // that it began
  int64_t stamp_ns = 0;  // that this was written; 0: never
};
static_assert(sizeof(WaitNote) == 72);

}  // namespace collctl::kernels
