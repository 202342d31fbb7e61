#include "runtime/window/team_windows.h"

#include <algorithm>

#include "base/log.h"
#include "runtime/bootstrap/bootstrap.h"
#include "runtime/plan/shared.h"
#include "runtime/window/fabric_probe.h"

namespace collctl::runtime {
namespace {

// Whether there is a team of several GPU ranks: the same on all ranks.
bool gpus_share_hosts(std::span<const transport::PeerInfo> peers, std::span<const int> teams) {
  for (size_t r = 0; r < peers.size(); ++r)
    if (peers[r].kind == transport::DeviceKind::cuda && teams[r] != int(r)) return true;
  return false;
}

// By member of this rank's team: whether its GPU reaches theirs.
Bytes reach_of(const TeamSearch& search, std::span<const int> teams) {
  const auto& peers = *search.peers;
  Bytes reach;
  for (size_t r = 0; r < peers.size(); ++r) {
    if (teams[r] != teams[size_t(search.rank)]) continue;
    // Places on the bus are a host's own.
    const bool here = peers[r].host_hash == peers[size_t(search.rank)].host_hash;
    auto reached = here && search.device ? search.device->reaches(peers[r]) : Result<bool>(true);
    if (here && search.no_p2p != nullptr)
      if (std::string why = no_p2p_between(*search.no_p2p, search.rank, int(r)); !why.empty())
        reached = Error(ErrorCode::unavailable, std::move(why));
    if (!reached) COLL_INFO(init, "No window with rank {} : {}", r, reached.error().message);
    reach.push_back(reached ? 1 : 0);
  }
  return reach;
}

}  // namespace

Result<std::unique_ptr<UserWindows>> make_user_windows(const TeamSearch& search,
                                                       Deadline deadline) {
  const auto& peers = *search.peers;
  std::vector<int> teams = window_teams(peers, *search.settings);
  COLL_ASSIGN(const std::string why_not, why_no_fabric({.rank = search.rank,
                                                        .peers = peers,
                                                        .teams = teams,
                                                        .device = search.device,
                                                        .bootstrap = search.bootstrap},
                                                       deadline));
  if (!why_not.empty()) {
    if (search.rank == 0) COLL_WARN("windows stay inside hosts: {}", why_not);
    teams = window_teams(peers, *search.settings, false);
  }
  if (gpus_share_hosts(peers, teams)) {
    COLL_ASSIGN(const auto all,
                search.bootstrap->all_gather_blobs(reach_of(search, teams), deadline));
    teams = teams_within_reach(teams, all);
  }
  UserWindows::Options w;
  w.rank = search.rank;
  w.nranks = int(peers.size());
  w.peers = &peers;
  w.teams = std::move(teams);
  w.stride_bytes = window_stride(peers, w.teams, search.settings->window_stride);
  w.comm_hash = search.comm_hash;
  w.device = search.device;
  w.bootstrap = search.bootstrap;
  return std::make_unique<UserWindows>(std::move(w));
}

bool place_in_windows(std::span<Operation> operations, const UserWindows& windows, int rank,
                      int nranks) {
  if (windows.count() == 0 || int(windows.team().size()) != nranks) return false;
  return std::all_of(operations.begin(), operations.end(), [&](Operation& op) {
    if (op.collective == Collective::send_recv || op.collective == Collective::barrier ||
        op.count == 0 || op.count > UINT64_MAX / 1024)
      return false;
    const OperationBytes bytes = operation_bytes(op, rank, nranks);
    uint8_t* const in = bytes.input > 0 ? windows.flat_address(op.input, bytes.input) : nullptr;
    uint8_t* const out = bytes.output > 0 ? windows.flat_address(op.output, bytes.output) : nullptr;
    if ((bytes.input > 0 && in == nullptr) || (bytes.output > 0 && out == nullptr)) return false;
    op.input = in;
    op.output = out;
    return true;
  });
}

}  // namespace collctl::runtime
