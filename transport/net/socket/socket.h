// The network over TCP sockets: authenticated connections to the peer's listener, one or several
// for each connection. Row of the table of networks.
#pragma once
#include "transport/net/net.h"

namespace collctl::transport {

Result<std::unique_ptr<NetHalf>> socket_open(const NetEnd& end, const Services& services);

// Helper threads of a connection between two ranks; the same at both ends. `requested` < 0: one
// between GPUs, whose slots lie in pinned memory: a progress thread that copies for all channels
// itself reached a fifth (3.1 of 15.2 GB/s, 2 x H200, 8 channels). CPU ranks move their own links.
int socket_threads(int requested, const PeerInfo& a, const PeerInfo& b);

}  // namespace collctl::transport
