// Processes of one host that see the same /dev/shm: the receiver makes a file there that has no
// name, reserves its pages, and pushes the descriptor to the sender; both map it. A file without a
// name cannot be left behind, however the job ends. GPU ranks pin it, each in its process.
// Threads: as transport.h.
//
// /dev/shm too small or absent: describe() of the receiving end returns code unavailable with what
// is needed and the remedy; the caller may go on with another transport.
#pragma once
#include "transport/transport.h"

namespace collctl::transport {

Reach shm_reach(const PeerInfo& a, const PeerInfo& b);
Result<std::unique_ptr<Endpoint>> shm_open_endpoint(const LinkSpec& spec, const Services& services);
Status shm_decline(const LinkSpec& spec, const Services& services, ByteView peer_blob,
                   Deadline deadline);

}  // namespace collctl::transport
