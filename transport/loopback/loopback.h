// Ranks that are threads of one process: both ends use one block of private memory. The blob
// carries a random token that is looked up in a registry of this process; no address is ever taken
// from outside. Threads: as transport.h; the registry is locked.
#pragma once
#include "transport/transport.h"

namespace collctl::transport {

Reach loopback_reach(const PeerInfo& a, const PeerInfo& b);
Result<std::unique_ptr<Endpoint>> loopback_open(const LinkSpec& spec, const Services& services);

}  // namespace collctl::transport
