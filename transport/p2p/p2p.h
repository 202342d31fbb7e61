// GPUs of one host that use each other's memory: slots, records and the tail lie in the receiver's
// memory, the head in the sender's, so that each side waits on its own memory. With p2p_read
// Simple's slots lie at the sender, which then writes at home and the receiver fetches.
//
// Ranks of one process share memory by its address ("P2P/direct pointer"), others by descriptors
// that the owner pushes ("P2P/CUMEM"), or by name where the GPU or driver has no descriptors
// ("P2P/IPC"). Threads: as transport.h.
//
// GPUs that do not reach each other: open() returns code unavailable naming both and what to check;
// the caller may continue with another transport.
#pragma once
#include "transport/transport.h"

namespace collctl::transport {

Reach p2p_reach(const PeerInfo& a, const PeerInfo& b);
Result<std::unique_ptr<Endpoint>> p2p_open(const LinkSpec& spec, const Services& services);
Status p2p_decline(const LinkSpec& spec, const Services& services, ByteView peer_blob,
                   Deadline deadline);

}  // namespace collctl::transport
