// Users' buffers in windows: the communicator's part of it.
#include <algorithm>

#include "base/format.h"
#include "base/log.h"
#include "base/wait.h"
#include "runtime/communicator/state.h"
#include "runtime/window/fabric_probe.h"

namespace collctl::runtime {
namespace {

// After these the ranks no longer know of each other how far they are.
bool ends_the_communicator(const Error& error) {
  return error.code == ErrorCode::deadline || error.code == ErrorCode::lost ||
         error.code == ErrorCode::interrupted || error.code == ErrorCode::defect;
}

// Whether there is a team of several GPU ranks: the same on all ranks.
bool gpus_share_hosts(std::span<const transport::PeerInfo> peers, std::span<const int> teams) {
  for (size_t r = 0; r < peers.size(); ++r)
    if (peers[r].kind == transport::DeviceKind::cuda && teams[r] != int(r)) return true;
  return false;
}

}  // namespace

Status Communicator::State::make_user_windows(Deadline deadline) {
  std::vector<int> teams = window_teams(peers, settings);
  COLL_ASSIGN(const std::string why_not, why_no_fabric({.rank = rank,
                                                        .peers = peers,
                                                        .teams = teams,
                                                        .device = device,
                                                        .bootstrap = bootstrap.get()},
                                                       deadline));
  if (!why_not.empty()) {
    if (rank == 0) COLL_WARN("windows stay inside hosts: {}", why_not);
    teams = window_teams(peers, settings, false);
  }
  const int team = teams[size_t(rank)];
  if (gpus_share_hosts(peers, teams)) {
    Bytes reach;
    for (int r = 0; r < size; ++r) {
      if (teams[size_t(r)] != team) continue;
      // Places on the bus are a host's own.
      const transport::PeerInfo& peer = peers[size_t(r)];
      const bool here = peer.host_hash == peers[size_t(rank)].host_hash;
      const auto reached = here && device ? device->reaches(peer) : Result<bool>(true);
      if (!reached) COLL_INFO(init, "No window with rank {} : {}", r, reached.error().message);
      reach.push_back(reached ? 1 : 0);
    }
    COLL_ASSIGN(const auto all, bootstrap->all_gather_blobs(reach, deadline));
    teams = teams_within_reach(teams, all);
  }
  UserWindows::Options w;
  w.rank = rank;
  w.nranks = size;
  w.peers = &peers;
  w.teams = std::move(teams);
  w.stride_bytes = window_stride(peers, w.teams, settings.window_stride);
  w.comm_hash = hash;
  w.device = device;
  w.bootstrap = bootstrap.get();
  user_windows = std::make_unique<UserWindows>(std::move(w));
  return {};
}

// The bootstrap is one thread's at a time: submissions that may still wire go first.
Status Communicator::State::wait_until_wired(Deadline deadline) {
  std::unique_lock lock(turn_mutex);
  if (base::wait_for(turn, lock, deadline, [&] { return unwired == 0; })) return {};
  return Error(ErrorCode::deadline,
               format("rank {}: operations in progress have not connected their links", rank))
      .blame(rank);
}

// Operations before one that lies elsewhere keep what they got: it is the same memory.
bool Communicator::State::place_in_windows(std::span<Operation> operations) const {
  const bool mapped =
      gpu != nullptr ? shape.gpu_window && shape.window_direct != nullptr : window != nullptr;
  if (user_windows->count() == 0 || !mapped || int(user_windows->team().size()) != size)
    return false;
  return std::all_of(operations.begin(), operations.end(), [this](Operation& op) {
    if (op.collective == Collective::send_recv || op.collective == Collective::barrier ||
        op.count == 0 || op.count > UINT64_MAX / 1024)
      return false;
    const OperationBytes bytes = operation_bytes(op, rank, size);
    uint8_t* const in =
        bytes.input > 0 ? user_windows->flat_address(op.input, bytes.input) : nullptr;
    uint8_t* const out =
        bytes.output > 0 ? user_windows->flat_address(op.output, bytes.output) : nullptr;
    if ((bytes.input > 0 && in == nullptr) || (bytes.output > 0 && out == nullptr)) return false;
    op.input = in;
    op.output = out;
    return true;
  });
}

Result<std::vector<WindowPointer>> Communicator::register_windows(
    std::span<const WindowRange> ranges, Deadline deadline) {
  State& s = *state_;
  COLL_TRY(s.error());
  if (s.finalized) return Error(ErrorCode::usage, "the communicator was finalized");
  COLL_TRY(s.wait_until_wired(deadline));
  s.repeated_plan = nullptr;
  const std::lock_guard lock(s.bootstrap_mutex);
  auto windows = s.user_windows->register_windows(ranges, deadline);
  // Once: from the first registration on, operations in flight read it.
  if (s.flat.base == nullptr) s.flat = s.user_windows->flat();
  if (windows) return windows;
  if (s.user_windows->in_step() && !ends_the_communicator(windows.error())) return windows;
  if (windows.error().rank < 0) windows.error().rank = s.rank;
  // What another rank has found out is nearer to the cause.
  s.fail(windows.error(), true);
  return Error(s.error().error());
}

Status Communicator::deregister_windows(std::span<const WindowPointer> windows, Deadline deadline) {
  State& s = *state_;
  // What failed has ended, so that windows are given back after an error, too.
  if (s.gpu == nullptr || s.error()) COLL_TRY_IN(s.drain(deadline), "deregister windows");
  s.repeated_plan = nullptr;
  return s.user_windows->deregister_windows(windows);
}

const UserWindows& Communicator::windows() const {
  return *state_->user_windows;
}

std::string Communicator::no_direct_path() const {
  const State& s = *state_;
  if (s.size == 1) return "one rank has no peers";
  if (int(s.user_windows->team().size()) != s.size) return "not all ranks map each other's memory";
  const bool mapped = s.gpu != nullptr ? s.shape.gpu_window : s.window != nullptr;
  if (!mapped) return "the ranks share no mapped memory: " + s.shape.no_window;
  if (s.gpu != nullptr && s.shape.window_direct == nullptr)
    return "the kernels in use do not work between users' windows";
  return {};
}

}  // namespace collctl::runtime
