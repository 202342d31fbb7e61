// The NET transport: slots are staged in host memory at each end and moved by progress(). The send
// end posts every slot the block published; the receive end posts every free slot, and announces
// what arrived (Simple: tail; LL: whole lines with this end's flags, the wire carries data only).
// Reaches every peer that has a network address. Threads: as transport.h, progress by one driver.
#pragma once
#include "transport/transport.h"

namespace collctl::transport {

Reach net_reach(const PeerInfo& a, const PeerInfo& b);
Result<std::unique_ptr<Endpoint>> net_open(const LinkSpec& spec, const Services& services);

}  // namespace collctl::transport
