// Which ports a rank's connection uses. Pure; threads: any.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "transport/net/ib/devices.h"
#include "transport/transport.h"

namespace collctl::transport {

// Facts about a port, for the choice.
struct IbCandidate {
  std::string device;
  uint8_t port = 0;
  int64_t mbps = 0;
  int numa = -1;
  bool ethernet = false;
  uint64_t card = 0;  // equal for the ports of one card
};

struct IbPortRequest {
  std::string nic = {};  // as transport::NicChoice has it
  int channel = 0;
  int numa = -1;                             // of the rank; -1: unknown
  int local_rank = 0;                        // among those of its host
  bool ethernet = false, infiniband = true;  // link layers that the peer also has
  bool merge = false;                        // all ports of the card
};
// Indexes into `ports`, at least one; empty when no port has a wanted link layer. Without a
// choice of the topology: the ports of the rank's NUMA node (all, where that has none), of those
// the fastest; ranks and channels take them in turn.
std::vector<size_t> choose_ports(std::span<const IbCandidate> ports, const IbPortRequest& request);

}  // namespace collctl::transport
