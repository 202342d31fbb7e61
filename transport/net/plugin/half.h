// NET by an external plugin: a connection has one of the plugin's for each stream, because a
// plugin matches sends and receives in order, and a TCP connection beside them that tells a clean
// end from a lost peer. Row of the table of networks. Threads: as net.h.
#pragma once
#include "transport/net/net.h"

namespace collctl::transport {

Result<std::unique_ptr<NetHalf>> plugin_open(const NetEnd& end, const Services& services);

}  // namespace collctl::transport
