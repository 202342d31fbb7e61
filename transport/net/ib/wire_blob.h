// The blob that the two ends of an IB connection exchange before the first packet, through the
// bootstrap. Everything from a peer is bounded and checked here. Pure.
#pragma once
#include <string>
#include <vector>

#include "base/record.h"
#include "transport/net/ib/gid.h"

namespace collctl::transport {

inline constexpr size_t kIbMaxRails = 4;   // ports of a connection
inline constexpr size_t kIbMaxLanes = 64;  // its queue pairs
inline constexpr size_t kIbMaxGids = 8;    // offered of a port

struct IbRailBlob {                           // a port
  std::string device;                         // "mlx5_0", for messages
  uint8_t port = 0, link_layer = 0, mtu = 0;  // MTU as a code, 1 to 5
  uint16_t lid = 0;
  uint32_t clear_key = 0;  // send end: remote key of the clear-to-send entries, for this port
  std::vector<IbGid> gids;
  bool operator==(const IbRailBlob&) const = default;
};
struct IbLaneBlob {  // a queue pair
  uint32_t qp = 0;
  uint8_t rail = 0;
  bool operator==(const IbLaneBlob&) const = default;
};
struct IbBlob {
  static constexpr const char* kRecord = "RDMA connection data of the peer";
  uint8_t split = 0, failover = 0;
  uint64_t clear_address = 0;  // send end: of the clear-to-send entries
  std::vector<IbRailBlob> rails;
  std::vector<IbLaneBlob> lanes;
  bool operator==(const IbBlob&) const = default;
};

void fields(Record& io, IbBlob& blob);

// "mlx5_0:1"
std::string port_text(const IbRailBlob& rail);

}  // namespace collctl::transport
