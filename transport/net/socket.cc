#include "transport/net/socket.h"

#include <algorithm>

#include "base/format.h"
#include "base/socket.h"
#include "transport/edge.h"
#include "transport/net/greeting.h"
#include "transport/net/lane_helper.h"
#include "transport/net/socket_connection.h"

namespace collctl::transport {

namespace {

constexpr int kMaxLanes = 64;
constexpr uint32_t kBlobMagic = 0x4b434f53;

uint32_t wanted_lanes(const Services& services) {
  const int threads = std::clamp(services.helper_threads, 0, 16);
  return uint32_t(std::clamp(services.sockets_per_thread * std::max(threads, 1), 1, kMaxLanes));
}

// Both ends use the smaller number of what either wants.
Bytes describe_lanes(const Services& services) {
  ByteWriter w;
  w.put(kBlobMagic).put(wanted_lanes(services));
  return w.take();
}

Result<uint32_t> agreed_lanes(const NetEnd& end, const Services& services, ByteView blob) {
  ByteReader r(blob);
  const auto magic = r.get<uint32_t>();
  const auto theirs = r.get<uint32_t>();
  if (!r.ok() || !r.at_end() || magic != kBlobMagic || theirs == 0 || theirs > uint32_t(kMaxLanes))
    return Error(ErrorCode::lost, format("what {} sent to connect by sockets is malformed",
                                         peer_text(end.spec.peer)));
  return std::min(theirs, wanted_lanes(services));
}

// The peer in errors; the connecting side knows the address.
std::string peer_name(const NetEnd& end) {
  return format("{} at {}", peer_text(end.spec.peer), net_address(end.spec.peer).text());
}

Result<std::unique_ptr<NetConnection>> make_connection(const NetEnd& end, const Services& services,
                                                       std::vector<base::Fd> sockets) {
  std::vector<std::unique_ptr<LaneHelper>> helpers;
  const size_t wanted = size_t(std::clamp(services.helper_threads, 0, 16));
  for (size_t i = 0; i < std::min(wanted, sockets.size()); ++i) {
    COLL_ASSIGN(auto helper, LaneHelper::create());
    helpers.push_back(std::move(helper));
  }
  for (const base::Fd& fd : sockets) COLL_TRY(base::set_no_delay(fd.get()));
  return std::unique_ptr<NetConnection>(std::make_unique<SocketConnection>(
      end, std::move(sockets), std::move(helpers), peer_name(end)));
}

uint64_t lane_key(const NetEnd& end, const Services& services, uint32_t lane) {
  return edge_key(end.spec, services.comm_hash, 1 + lane);
}

Result<Bytes> socket_listen(const NetEnd& end, const Services& services) {
  if (services.acceptor == nullptr)
    return Error(ErrorCode::unavailable,
                 "network connections need a listener, and this communicator has none");
  for (uint32_t lane = 0; lane < wanted_lanes(services); ++lane)
    services.acceptor->expect(lane_key(end, services, lane));
  return describe_lanes(services);
}

Result<Bytes> socket_introduce(const NetEnd&, const Services& services) {
  return describe_lanes(services);
}

Result<std::unique_ptr<NetConnection>> socket_connect(const NetEnd& end, const Services& services,
                                                      ByteView listener, Deadline deadline) {
  COLL_ASSIGN(const uint32_t lanes, agreed_lanes(end, services, listener));
  const Address to = net_address(end.spec.peer);
  if (to.family() == 0)
    return Error(ErrorCode::unavailable,
                 format("{} accepts no network connections", peer_text(end.spec.peer)));
  std::vector<base::Fd> sockets;
  for (uint32_t lane = 0; lane < lanes; ++lane) {
    const NetGreeting greeting{.magic = kNetGreetingMagic,
                               .key = lane_key(end, services, lane),
                               .from = end.spec.self.rank,
                               .to = end.spec.peer.rank};
    auto fd = base::auth_connect(to, services.secret, encode(greeting), deadline);
    if (!fd) return std::move(fd.error()).within(format("connect to {}", peer_name(end)));
    sockets.push_back(std::move(*fd));
  }
  return make_connection(end, services, std::move(sockets));
}

Result<std::unique_ptr<NetConnection>> socket_accept(const NetEnd& end, const Services& services,
                                                     ByteView introduction, Deadline deadline) {
  COLL_ASSIGN(const uint32_t lanes, agreed_lanes(end, services, introduction));
  std::vector<base::Fd> sockets;
  for (uint32_t lane = 0; lane < lanes; ++lane) {
    auto fd = services.acceptor->take(lane_key(end, services, lane), deadline);
    if (!fd)
      return std::move(fd.error())
          .within(format("wait for the connection of {}", peer_text(end.spec.peer)));
    sockets.push_back(std::move(*fd));
  }
  return make_connection(end, services, std::move(sockets));
}

}  // namespace

const Net kSocketNet = {.name = "socket",
                        .via = "NET/Socket/0",
                        .listen = socket_listen,
                        .introduce = socket_introduce,
                        .connect = socket_connect,
                        .accept = socket_accept};

std::span<const Net> nets() {
  return {&kSocketNet, 1};
}

}  // namespace collctl::transport
