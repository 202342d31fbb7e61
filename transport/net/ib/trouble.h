// What has become of a port or queue pair, as the error of a connection that uses it. Used by both
// kinds of IB connection. Threads: any.
#pragma once
#include <optional>

#include "transport/net/ib/devices.h"
#include "transport/net/ib/errors.h"

namespace collctl::transport {

// Why the port cannot be used any more: its adapter failed, or it has been down for longer than the
// settings allow. `down` becomes true when it is down, however long: it is to be asked again.
std::optional<Error> port_trouble(const IbPort& port, const IbLaneName& lane,
                                  const IbSettings& settings, bool& down);
// Of a completion that is no success: what the adapter says of the queue pair, where that is more.
Error completion_error(const IbPort& port, const IbLaneName& lane, const IbFailure& failure,
                       const IbSettings& settings);

}  // namespace collctl::transport
