// The NICs of a host as `rails` tries them, one against another: RDMA ports, or network interfaces
// where there is no RDMA. A host's facts of its own NICs travel to all ranks; everything that comes
// from a peer is bounded. Threads: values; find_rail_nics opens the RDMA devices, any thread.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "base/socket.h"
#include "cmd/rails/gpus.h"
#include "transport/net/ib/gid.h"

namespace collctl::runtime {

inline constexpr size_t kMostUnusedNics = 256;  // that are told

struct RailNic {
  std::string name;          // "mlx5_0:1", "eth0"
  uint8_t link_layer = 0;    // of an RDMA port (drivers::kLink...); 0: an interface
  int64_t rate_mbps = 0;     // 0: the driver does not say
  int32_t mtu = 0;           // bytes; of an RDMA port the active one
  uint16_t lid = 0;          // of an InfiniBand port
  base::Address address{};   // of an interface; with the port where its host listens
  std::string network = {};  // that this is on: "10.83.0.0/24"; empty: not known
  std::vector<transport::IbGid> gids = {};
  bool rdma() const { return link_layer != 0; }
};

struct RailHost {
  static constexpr const char* kRecord = "NICs of a host";
  Host host;
  int32_t rank = -1;  // that acts for it
  uint64_t hash = 0;  // equal for ranks of one host
  uint64_t network_namespace = 0;
  base::Address beside_rdma{};  // where what RDMA ports tell each other by TCP arrives
  std::vector<RailNic> nics;
  std::vector<std::string> unused;  // each with why
  std::string why_no_rdma;          // empty when RDMA ports were found, or none were wanted
  std::string busy;                 // why its speeds say little; known when all is measured
  RailGpus gpus = {};               // empty where their memory is not wanted
};

void fields(base::Record& io, RailHost& host);

struct RailNicFilter {
  std::string net;                 // "", "ib" or "socket"
  std::string interfaces, family;  // as SOCKET_IFNAME and SOCKET_FAMILY
};
// `found.nics` are RDMA ports where there are any and `net` is not "socket", else interfaces.
// `keep` holds the RDMA devices open. Errors: usage: a knob; unavailable: net is "ib" and there is
// no port.
Status find_rail_nics(const RailNicFilter& filter, RailHost& found, std::shared_ptr<void>& keep);

}  // namespace collctl::runtime
