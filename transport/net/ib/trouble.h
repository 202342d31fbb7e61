// The failure of a port or queue pair, as the error of a connection that uses it. Used by both
// kinds of IB connection. Threads: any.
#pragma once
#include <optional>

#include "transport/net/ib/devices.h"
#include "transport/net/ib/errors.h"

namespace collctl::transport {

// Why the port can no longer be used: its adapter failed, or it has been down for longer than the
// settings allow. `down` becomes true when it is down, however long: it is to be asked again.
std::optional<Error> port_trouble(const IbPort& port, const IbLaneName& lane,
                                  const IbSettings& settings, bool& down);
// For a failed completion: what the adapter reports of the queue pair, where that says more.
Error completion_error(const IbPort& port, const IbLaneName& lane, const IbFailure& failure,
                       const IbSettings& settings);

}  // namespace collctl::transport
