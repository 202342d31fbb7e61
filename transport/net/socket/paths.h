// Which interfaces a socket connection runs between, of those that its two ends have: pure. The
// send end decides, since it connects; the receive end sees where the connection arrived.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "transport/transport.h"

namespace collctl::transport {

struct SocketPath {
  int from = 0, to = 0;  // indexes of the two ends' interfaces
  bool operator==(const SocketPath&) const = default;
};

// Interfaces in one subnet are paired, each of the longer list once: what crosses no router has a
// wire of its own. Where none are, the first of one list goes with the first of the other and so
// on, by the routes. `apart`: not of one network namespace, so that an address that both have
// (docker0's) is not one that the other is reached at. Never empty.
std::vector<SocketPath> socket_paths(std::span<const Interface> from, std::span<const Interface> to,
                                     bool apart);

// The one for a connection: of the interface that the topology gave either end, where there is such
// a path, else in turn.
SocketPath choose_path(std::span<const SocketPath> paths, int given_from, int given_to,
                       unsigned turn);

// -1: none has this name.
int find_interface(std::span<const Interface> all, std::string_view name);
int find_interface(std::span<const Interface> all, const base::Address& address);

}  // namespace collctl::transport
