#include "transport/table/transports.h"

#include "transport/loopback/loopback.h"
#include "transport/p2p/p2p.h"
#include "transport/shm/shm.h"
#include "transport/table/net_transport.h"

namespace collctl::transport {

namespace {

constexpr Transport kTransports[] = {
    {.name = "loopback",
     .joins = "CPU ranks that are threads of one process",
     .reach = loopback_reach,
     .open = loopback_open},
    {.name = "p2p",
     .joins = "GPUs that reach each other's memory",
     .reach = p2p_reach,
     .open = p2p_open,
     .decline = p2p_decline},
    {.name = "shm",
     .joins = "processes of one host",
     .reach = shm_reach,
     .open = shm_open_endpoint,
     .decline = shm_decline},
    {.name = "net", .joins = "any", .reach = net_reach, .open = net_open},
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
