#include "transport/net/rendezvous.h"

#include "base/format.h"
#include "base/peer_closed.h"
#include "base/socket.h"
#include "transport/edge.h"
#include "transport/net/greeting.h"

namespace collctl::transport {

namespace {

Result<base::Fd> go(const NetEnd& end, const Services& services, uint64_t key, Deadline deadline,
                    const Address& at, base::Session* session) {
  const Address to = at.family() != 0 ? at : net_address(end.spec.peer);
  if (to.family() == 0)
    return Error(ErrorCode::unavailable,
                 format("{} accepts no network connections", peer_text(end.spec.peer)));
  const NetGreeting greeting{
      .magic = kNetGreetingMagic, .key = key, .from = end.spec.self.rank, .to = end.spec.peer.rank};
  // A peer that has failed meanwhile listens no more: the abort says so, not a deadline.
  auto fd =
      base::auth_connect(to, services.secret, encode(greeting), base::connect_deadline(deadline),
                         services.source, services.abort_word, session);
  if (!fd && base::never_answered(fd.error()))
    return base::cannot_connect(peer_text(end.spec.self), peer_text(end.spec.peer),
                                end.spec.peer.host, fd.error())
        .blame(end.spec.peer.rank);
  if (!fd) return std::move(fd.error()).within(format("connect to {}", peer_text(end.spec.peer)));
  return fd;
}

}  // namespace

Status expect_peer(const NetEnd& end, const Services& services, uint64_t key) {
  if (services.acceptor == nullptr)
    return Error(ErrorCode::unavailable,
                 "network connections need a listener, and this communicator has none");
  if (end.spec.direction == Direction::recv) services.acceptor->expect(key);
  return {};
}

Result<base::Fd> rendezvous(const NetEnd& end, const Services& services, uint64_t key,
                            Deadline deadline, const Address& at, base::Session* session) {
  const bool goes = end.spec.direction == Direction::send;
  auto fd = goes ? go(end, services, key, deadline, at, session)
                 : services.acceptor->take(key, deadline, session);
  if (!fd && !goes)
    return std::move(fd.error())
        .within(format("wait for the connection from {}", peer_text(end.spec.peer)));
  if (!fd) return fd;
  COLL_TRY(base::set_no_delay(fd->get()));
  base::spare_congestion_control(fd->get());
  return fd;
}

}  // namespace collctl::transport
