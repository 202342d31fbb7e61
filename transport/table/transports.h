// THE ordered table of transports, best first: the first that can reach a peer serves it. To add
// one: a folder beside this one with its row of folders.txt, and a row here. Threads: any.
#pragma once
#include <span>
#include <string_view>

#include "transport/transport.h"

namespace collctl::transport {

std::span<const Transport> transports();  // loopback, p2p, shm, net
const Transport* find_transport(std::string_view name);

}  // namespace collctl::transport
