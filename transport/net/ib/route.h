// From a rank's ports to the path to a peer: which ports an end uses, what it reports of them, and
// the path that a queue pair is connected by. Used by both kinds of IB connection (ib.cc,
// one_sided.cc). Threads: any.
#pragma once
#include <vector>

#include "transport/net/ib/devices.h"
#include "transport/net/ib/errors.h"
#include "transport/net/ib/queue_pair.h"
#include "transport/net/net.h"

namespace collctl::transport {

// Error unavailable: no port has the peer's link layer.
Result<std::vector<IbPort*>> ports_towards(const IbDevices& devices, const LinkSpec& spec,
                                           const Services& services, const IbSettings& settings);

IbRailBlob rail_blob(const IbPort& port);

// Towards the peer's port, by the address that both ends choose; `sends`: this is the end that
// counts as the sender. Error unavailable: the ports do not match.
Result<IbPath> path_towards(const IbPort& port, const IbRailBlob& peer, const IbLaneName& lane,
                            bool sends, const IbSettings& settings);

void log_lane(const IbLaneName& lane, const IbPort& port, const IbPath& path);

}  // namespace collctl::transport
