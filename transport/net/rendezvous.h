// The TCP connection of two ends of an edge: the send end opens it at the peer's listener, the
// receive end is handed it by the acceptor, which must expect the key before the peer can know it.
// Threads: the one that wires. The descriptor is authenticated and without Nagle's delay.
#pragma once
#include "transport/net/net.h"

namespace collctl::transport {

// Error: unavailable: this communicator has no acceptor.
Status expect_peer(const NetEnd& end, const Services& services, uint64_t key);
// Waits for the peer until the deadline. Errors name it. The send end goes to `at`, or, where its
// family is 0, to where the peer's PeerInfo says. `session` (may be null) gets what the handshake
// left.
Result<base::Fd> rendezvous(const NetEnd& end, const Services& services, uint64_t key,
                            Deadline deadline, const base::Address& at = {},
                            base::Session* session = nullptr);

}  // namespace collctl::transport
