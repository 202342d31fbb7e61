#include "transport/table/transports.h"

#include "transport/loopback/loopback.h"
#include "transport/p2p/p2p.h"
#include "transport/shm/shm.h"
#include "transport/table/net_transport.h"

namespace collctl::transport {

namespace {

constexpr Transport kTransports[] = {
    {.name = "loopback", .reach = loopback_reach, .open = loopback_open},
    {.name = "p2p", .reach = p2p_reach, .open = p2p_open, .decline = p2p_decline},
    {.name = "shm", .reach = shm_reach, .open = shm_open_endpoint, .decline = shm_decline},
    {.name = "net", .reach = net_reach, .open = net_open},
};

}  // namespace

std::span<const Transport> transports() {
  return kTransports;
}

const Transport* find_transport(std::string_view name) {
  for (const Transport& t : kTransports)
    if (name == t.name) return &t;
  return nullptr;
}

}  // namespace collctl::transport
