// The NET transport, a row of the table: which peers a network reaches, and the endpoints whose
// links (net_link.h) it makes. Reaches every peer that has a network address. Threads: as
// transport.h.
#pragma once
#include "transport/transport.h"

namespace collctl::transport {

Reach net_reach(const PeerInfo& a, const PeerInfo& b);
Result<std::unique_ptr<Endpoint>> net_open(const LinkSpec& spec, const Services& services);

}  // namespace collctl::transport
