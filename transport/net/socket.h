// The network over TCP sockets: authenticated connections to the peer's listener, one or several
// for each connection. Row of the table of networks.
#pragma once
#include "transport/net/net.h"

namespace collctl::transport {

extern const Net kSocketNet;

}  // namespace collctl::transport
