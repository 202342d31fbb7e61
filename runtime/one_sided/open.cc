// How ranks come to one-sided operations: all of them, or none.
#include "base/format.h"
#include "base/log.h"
#include "runtime/bootstrap/bootstrap.h"
#include "runtime/one_sided/one_sided.h"
#include "transport/edge.h"
#include "transport/net/rendezvous.h"

namespace collctl::runtime {
namespace {

constexpr uint32_t kPurposeOneSided = 16;  // of connections, beside those of links
constexpr uint32_t kPurposeOneSidedRdma = 17;
constexpr double kSocketCopySeconds = 10;  // of a part of what goes over sockets, from or to a GPU

}  // namespace

Result<std::unique_ptr<OneSided>> OneSided::open(Communicator& communicator, Deadline deadline,
                                                 const kernels::Fault& fault) {
  std::unique_ptr<OneSided> made(new OneSided(communicator));
  made->fault_ = fault;
  if (communicator.device() != nullptr) {
    auto stream = transport::DeviceStream::make(communicator.device());
    if (!stream) return made->fail_open(std::move(stream.error()), deadline);
    made->stream_ = std::move(*stream);
  }
  // All ranks hear of one that has no board, and can continue without.
  COLL_TRY_IN(made->board_.open(communicator, deadline), "one-sided operations");
  Status connected = made->connect_peers(deadline);
  // All are there, or none is.
  if (connected) connected = communicator.barrier(deadline);
  if (!connected)
    return made->fail_open(std::move(connected.error()), deadline).within("one-sided operations");
  return made;
}

// The others wait for this rank's part: they end with its reason, if not it with theirs.
Error OneSided::fail_open(Error mine, Deadline deadline) {
  const int peer = mine.rank;
  Error why = named(std::move(mine), peer, deadline);
  if (Status told = communicator_.async_error(); !told) return std::move(told.error());
  communicator_.abort(why);
  return why;
}

Status OneSided::connect_peers(Deadline deadline) {
  if (communicator_.device() != nullptr && !services_.shm_disabled())
    COLL_TRY(services_.exchange(
        [&](Bootstrap& bootstrap) { return board_.share_on_host(bootstrap, deadline); }, deadline));
  team_.assign(size_t(communicator_.size()), false);
  for (const int rank : communicator_.windows().team()) team_[size_t(rank)] = true;
  return connect(board_.number(), deadline);
}

OneSided::~OneSided() {
  // Before the board, whose lines their threads write.
  rdma_.reset();
  network_.reset();
  board_.close();
}

// Empty: RDMA is to be tried between this rank and the peer; the same at both ends.
std::string OneSided::refuses_rdma(int peer) const {
  if (team_[size_t(peer)]) return "same team";
  const auto& peers = communicator_.peers();
  const transport::PeerInfo& here = peers[size_t(communicator_.rank())];
  const transport::PeerInfo& there = peers[size_t(peer)];
  std::string why;
  const transport::Net* const net = transport::choose_net(here, there, why);
  if (net == nullptr) return why;
  if (std::string_view(net->name) == "ib") return "";
  if (std::string_view(net->name) != "socket")
    return format("the network is the plugin '{}', which has no one-sided operations",
                  services_.networks().network);
  const std::string& own = services_.networks().why_no_ib;
  return own.empty()
             ? format("{} has no RDMA port of this rank's kind", transport::peer_text(there))
             : "no IB here: " + own;
}

// The lower rank of a pair dials. Nobody dials before all expect their callers. Sockets connect all
// who do not reach each other; beside them stands a connection of each pair that tries RDMA.
Status OneSided::connect(uint64_t number, Deadline deadline) {
  const int rank = communicator_.rank();
  const auto& peers = communicator_.peers();
  const transport::Services& services = services_.transport();
  for (int peer = 0; services.integrity && peer < communicator_.size(); ++peer)
    if (peer != rank && !board_.reaches(peer))
      return Error(ErrorCode::unavailable,
                   format("--integrity (COLLCTL_INTEGRITY): one-sided operations with {} go over "
                          "the network, where they carry no MACs",
                          transport::peer_text(peers[size_t(peer)])),
                   "leave it out, or use ranks of one host");
  std::vector<transport::NetEnd> ends;
  for (const uint32_t purpose : {kPurposeOneSided, kPurposeOneSidedRdma})
    for (int peer = 0; peer < communicator_.size(); ++peer) {
      if (peer == rank || board_.reaches(peer)) continue;
      if (purpose == kPurposeOneSidedRdma) {
        why_[peer] = refuses_rdma(peer);
        if (!why_[peer].empty()) continue;
      }
      transport::NetEnd end{};
      end.spec.direction = rank < peer ? transport::Direction::send : transport::Direction::recv;
      end.spec.self = peers[size_t(rank)];
      end.spec.peer = peers[size_t(peer)];
      end.spec.purpose = purpose;
      end.spec.nic = services_.nic_towards(peer);
      ends.push_back(end);
    }
  const auto key_of = [&](const transport::NetEnd& end) {
    return transport::edge_key(end.spec, communicator_.hash(), number);
  };
  Status status;
  for (const auto& end : ends)
    if (status) status = transport::expect_peer(end, services, key_of(end));
  COLL_TRY(communicator_.barrier(deadline));
  COLL_TRY(std::move(status));
  std::vector<NetworkPeer> connected;
  std::vector<OneSidedRdma::RdmaPeer> rdma;
  for (const auto& end : ends) {
    auto fd = transport::rendezvous(end, services, key_of(end), deadline);
    if (!fd) return transport::edge_error(end.spec, std::move(fd.error()));
    if (end.spec.purpose == kPurposeOneSidedRdma)
      rdma.push_back({.spec = end.spec, .control = std::move(*fd)});
    else
      connected.push_back({.rank = end.spec.peer.rank,
                           .name = transport::peer_text(end.spec.peer),
                           .fd = std::move(*fd)});
  }
  if (connected.empty()) return {};
  OneSidedNetwork::Copy copy;
  if (communicator_.device() != nullptr) {
    COLL_ASSIGN(socket_stream_, transport::DeviceStream::make(communicator_.device()));
    copy = [this](void* to, const void* from, uint64_t bytes) {
      return copy_by(socket_stream_, to, from, bytes, Deadline::after_seconds(kSocketCopySeconds));
    };
  }
  COLL_ASSIGN(network_, OneSidedNetwork::start(std::move(connected), board_, std::move(copy)));
  return connect_rdma(std::move(rdma), deadline);
}

Status OneSided::connect_rdma(std::vector<OneSidedRdma::RdmaPeer> peers, Deadline deadline) {
  by_rdma_.assign(size_t(communicator_.size()), false);
  if (!peers.empty()) {
    std::map<int, std::string> refused;
    COLL_ASSIGN(rdma_,
                OneSidedRdma::start(
                    {.peers = std::move(peers),
                     .services = services_.transport(),
                     .board = &board_,
                     .copy = [this](void* to, const void* from, uint64_t bytes,
                                    Deadline until) { return move(to, from, bytes, until); }},
                    deadline, refused));
    for (auto& [peer, why] : refused) why_[peer] = std::move(why);
  }
  for (const auto& [peer, refused] : why_) {
    by_rdma_[size_t(peer)] = rdma_ != nullptr && rdma_->links(peer);
    if (!team_[size_t(peer)])
      COLL_INFO(net, "One-sided {} -> {} via {}{}", communicator_.rank(), peer, path(peer),
                refused.empty() ? "" : ": " + refused);
  }
  return {};
}

}  // namespace collctl::runtime
