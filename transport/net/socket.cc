#include "transport/net/socket.h"

#include <algorithm>

#include "base/format.h"
#include "base/host_facts.h"
#include "base/log.h"
#include "transport/device/device.h"
#include "transport/edge.h"
#include "transport/net/lane_helper.h"
#include "transport/net/rendezvous.h"
#include "transport/net/socket_connection.h"

namespace collctl::transport {

namespace {

constexpr int kMaxLanes = 64;
constexpr uint32_t kBlobMagic = 0x4b434f53;

uint32_t wanted_lanes(const NetEnd& end, const Services& services) {
  const int threads = socket_threads(services.helper_threads, end.spec.self, end.spec.peer);
  return uint32_t(std::clamp(services.sockets_per_thread * std::max(threads, 1), 1, kMaxLanes));
}

// Both ends use the smaller number of what either wants.
Bytes describe_lanes(const NetEnd& end, const Services& services) {
  ByteWriter w;
  w.put(kBlobMagic).put(wanted_lanes(end, services));
  return w.take();
}

Result<uint32_t> agreed_lanes(const NetEnd& end, const Services& services, ByteView blob) {
  ByteReader r(blob);
  const auto magic = r.get<uint32_t>();
  const auto theirs = r.get<uint32_t>();
  if (!r.ok() || !r.at_end() || magic != kBlobMagic || theirs == 0 || theirs > uint32_t(kMaxLanes))
    return Error(ErrorCode::lost,
                 format("socket connection data from {} is malformed", peer_text(end.spec.peer)));
  return std::min(theirs, wanted_lanes(end, services));
}

// The peer in errors; the connecting side knows the address.
std::string peer_name(const NetEnd& end) {
  return format("{} at {}", peer_text(end.spec.peer), net_address(end.spec.peer).text());
}

Result<std::unique_ptr<NetConnection>> make_connection(const NetEnd& end, const Services& services,
                                                       std::vector<base::Fd> sockets) {
  std::vector<std::unique_ptr<LaneHelper>> helpers;
  const auto wanted = size_t(socket_threads(services.helper_threads, end.spec.self, end.spec.peer));
  // The slots of a GPU's link lie in host memory of its node.
  const int node =
      services.device != nullptr ? base::pci_numa_node(services.device->facts().bus_id) : -1;
  for (size_t i = 0; i < std::min(wanted, sockets.size()); ++i) {
    COLL_ASSIGN(auto helper, LaneHelper::create(node));
    helpers.push_back(std::move(helper));
  }
  if (end.spec.channel == 0)  // the others are alike
    COLL_INFO(net, "NET/Socket : {} : {} sockets, {} helper threads", edge_text(end.spec),
              sockets.size(), helpers.size());
  return std::unique_ptr<NetConnection>(std::make_unique<SocketConnection>(
      end, std::move(sockets), std::move(helpers), peer_name(end)));
}

uint64_t lane_key(const NetEnd& end, const Services& services, uint32_t lane) {
  return edge_key(end.spec, services.comm_hash, 1 + lane);
}

class SocketHalf : public NetHalf {
 public:
  SocketHalf(const NetEnd& end, const Services& services) : end_(end), services_(services) {}

  Result<Bytes> describe(Deadline) override {
    for (uint32_t lane = 0; lane < wanted_lanes(end_, services_); ++lane)
      COLL_TRY(expect_peer(end_, services_, lane_key(end_, services_, lane)));
    return describe_lanes(end_, services_);
  }

  Result<std::unique_ptr<NetConnection>> connect(ByteView peer_blob, Deadline deadline) override {
    COLL_ASSIGN(const uint32_t lanes, agreed_lanes(end_, services_, peer_blob));
    std::vector<base::Fd> sockets;
    for (uint32_t lane = 0; lane < lanes; ++lane) {
      COLL_ASSIGN(base::Fd fd,
                  rendezvous(end_, services_, lane_key(end_, services_, lane), deadline));
      sockets.push_back(std::move(fd));
    }
    return make_connection(end_, services_, std::move(sockets));
  }

 private:
  NetEnd end_;
  Services services_;
};

}  // namespace

int socket_threads(int requested, const PeerInfo& a, const PeerInfo& b) {
  if (requested >= 0) return std::min(requested, 16);
  return a.kind == DeviceKind::cuda && b.kind == DeviceKind::cuda ? 1 : 0;
}

Result<std::unique_ptr<NetHalf>> socket_open(const NetEnd& end, const Services& services) {
  return std::unique_ptr<NetHalf>(std::make_unique<SocketHalf>(end, services));
}

}  // namespace collctl::transport
