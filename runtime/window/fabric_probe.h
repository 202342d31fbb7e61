// Whether NVLink between hosts works as the GPUs claim: tried once at start-up, so that a domain
// that is set up badly costs a warning and not every registration. Start-up's thread.
#pragma once
#include <span>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "transport/device/device.h"
#include "transport/peer.h"

namespace collctl::runtime {

class Bootstrap;

struct FabricProbe {
  int rank = 0;
  std::span<const transport::PeerInfo> peers;
  std::span<const int> teams;  // window_teams(), over hosts
  transport::DevicePointer device;
  Bootstrap* bootstrap = nullptr;
};
// All ranks together. Each GPU of a team over hosts maps memory of one GPU of each other host of
// its team and reads it. Returns the reason of the first rank that could not, the same on all
// ranks; empty where all could, or no team spans hosts. Errors: of the exchange; unavailable where
// a rank requires it (MNNVL_ENABLE=1), on all ranks.
Result<std::string> why_no_fabric(const FabricProbe& probe, Deadline deadline);

}  // namespace collctl::runtime
