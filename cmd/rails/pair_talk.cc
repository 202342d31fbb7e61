#include "cmd/rails/pair_talk.h"

#include <algorithm>

#include "base/format.h"

namespace collctl::runtime {
namespace {

using transport::Direction;
using transport::PeerInfo;

constexpr double kSlackSeconds = 1;  // of the peer's processor, for what only it does

PeerInfo peer_info(const RailHost& host, const RailNic& nic, const base::Address& at) {
  PeerInfo info{};
  info.rank = host.rank;
  info.host_hash = host.hash;
  info.network_namespace = host.network_namespace;
  info.bus_id = -1;
  if (nic.rdma())
    info.nets = nic.link_layer == base::drivers::kLinkEthernet ? transport::kNetRoce
                                                               : transport::kNetInfiniBand;
  info.net_address = at.storage;
  info.net_address_length = uint32_t(at.length);
  info.host_id = int32_t(host.host.id);
  host.host.name.copy(info.host, sizeof info.host - 1);
  return info;
}

}  // namespace

Error PairTalk::unreadable() const {
  return Error(ErrorCode::lost, format("the rail data of {} is malformed", side_.theirs->host))
      .blame(side_.theirs->rank);
}

Result<Bytes> PairTalk::swap(Bytes mine, double more_s) {
  const double step_s = side_.seconds + side_.timeout_s + kSlackSeconds + more_s;
  const Deadline deadline =
      Deadline::at_ns(heard_ns_ + int64_t(std::max(side_.op_timeout_s, step_s) * 1e9));
  const int peer = side_.theirs->rank;
  const std::string context = format("rails of {} and {}", side_.mine->host, side_.theirs->host);
  bool due = double(now_ns() - beat_ns_) / 1e9 >= kRailBeatSeconds;
  mine.push_back(uint8_t(due));
  COLL_TRY_IN(side_.meeting->send(peer, mine, deadline), context);
  auto theirs = side_.meeting->receive(peer, deadline);
  if (!theirs) return std::move(theirs.error()).within(context);
  if (theirs->empty()) return unreadable();
  if (!side_.first) due = theirs->back() != 0;
  theirs->pop_back();
  if (due) {
    COLL_TRY(side_.beat());
    beat_ns_ = now_ns();
  }
  heard_ns_ = now_ns();
  return theirs;
}

std::unique_ptr<RailPath> make_path(const RailSide& side, bool sends, size_t mine, size_t theirs,
                                    const PathPlan& plan) {
  const RailNic &my_nic = side.mine->nics[mine], &their_nic = side.theirs->nics[theirs];
  transport::NetEnd end{};
  end.spec.channel = int(plan.number);
  end.spec.direction = sends ? Direction::send : Direction::recv;
  end.spec.self = peer_info(*side.mine, my_nic, {});
  end.spec.peer = peer_info(*side.theirs, their_nic,
                            their_nic.rdma() ? side.theirs->beside_rdma : their_nic.address);
  end.spec.purpose = plan.purpose;
  end.spec.nic.gdr = plan.gdr;
  transport::Services services;
  services.acceptor = side.acceptors[my_nic.rdma() ? 0 : mine];
  services.secret = side.secret;
  services.comm_hash = side.comm_hash;
  services.helper_threads = 0;
  services.device = plan.device;
  if (my_nic.rdma()) end.spec.nic.name = my_nic.name;
  // Inside one host the kernel passes packets on itself, whatever interface is named.
  const bool apart = side.mine->network_namespace != side.theirs->network_namespace ||
                     side.mine->hash != side.theirs->hash;
  const bool by_it = apart && side.mine->nics.size() > 1;
  if (!my_nic.rdma())
    services.source = {.address = my_nic.address, .interface = by_it ? my_nic.name : ""};
  return std::make_unique<RailPath>(end, services, my_nic.rdma(), plan.memory, plan.number);
}

}  // namespace collctl::runtime
