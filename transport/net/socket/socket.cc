#include "transport/net/socket/socket.h"

#include <algorithm>

#include "base/format.h"
#include "base/host_facts.h"
#include "base/log.h"
#include "base/printable.h"
#include "transport/device/device.h"
#include "transport/edge.h"
#include "transport/net/rendezvous.h"
#include "transport/net/socket/connection.h"
#include "transport/net/socket/lane_helper.h"
#include "transport/net/socket/paths.h"

namespace collctl::transport {

namespace {

constexpr int kMaxLanes = 64;
constexpr size_t kMostInterfaceName = 64;  // of an interface
constexpr uint32_t kBlobMagic = 0x4b434f53;

uint32_t wanted_lanes(const NetEnd& end, const Services& services) {
  const int threads = socket_threads(services.helper_threads, end.spec.self, end.spec.peer);
  return uint32_t(std::clamp(services.sockets_per_thread * std::max(threads, 1), 1, kMaxLanes));
}

const std::vector<Interface>& own_interfaces(const Services& services) {
  static const std::vector<Interface> none;
  return services.interfaces != nullptr ? *services.interfaces : none;
}

// It would share its socket with the connection the other way: one socket, which the driver serves.
bool would_join(const NetEnd& end, const Services& services) {
  return end.spec.paired && wanted_lanes(end, services) == 1 && !services.integrity &&
         socket_threads(services.helper_threads, end.spec.self, end.spec.peer) == 0 &&
         own_interfaces(services).size() < 2;
}

// Facts that each end tells the other.
struct Offer {
  uint32_t lanes = 0;  // both ends use the smaller number of what either wants
  bool joins = false;  // would_join(); both must
  int32_t given = -1;  // the interface that the topology gave this end
  std::vector<Interface> interfaces;
};

Bytes encode(const Offer& offer) {
  ByteWriter w;
  w.put(kBlobMagic)
      .put(offer.lanes)
      .put(uint8_t(offer.joins))
      .put(offer.given)
      .put(uint32_t(offer.interfaces.size()));
  for (const Interface& each : offer.interfaces) {
    each.address.write(w);
    w.put(int32_t(each.prefix_bits)).put_string(each.name);
  }
  return w.take();
}

Result<Offer> decode_offer(const NetEnd& end, ByteView blob) {
  ByteReader r(blob);
  const auto magic = r.get<uint32_t>();
  Offer offer;
  offer.lanes = r.get<uint32_t>();
  offer.joins = r.get<uint8_t>() != 0;
  offer.given = r.get<int32_t>();
  const auto count = r.get<uint32_t>();
  bool good = r.ok() && magic == kBlobMagic && offer.lanes > 0 && offer.lanes <= kMaxLanes &&
              count <= kMostInterfaces;
  for (uint32_t i = 0; good && i < count; ++i) {
    Interface& each = offer.interfaces.emplace_back();
    each.address = base::Address::read(r);
    each.prefix_bits = r.get<int32_t>();
    each.name = base::printable(r.get_string(kMostInterfaceName));
    good = r.ok() && each.address.family() != 0;
  }
  if (!good || !r.at_end())
    return Error(ErrorCode::lost,
                 format("socket connection data from {} is malformed", peer_text(end.spec.peer)));
  return offer;
}

// The place of an established connection, as the kernel says.
SocketPlace place_of(const NetEnd& end, const Services& services, int fd) {
  SocketPlace place;
  const std::vector<Interface>& own = own_interfaces(services);
  if (const auto here = base::local_address(fd)) {
    const int at = find_interface(own, *here);
    if (at >= 0) {
      place.index = at;
      place.interface = own[size_t(at)].name;
    }
  }
  const auto there = base::peer_address(fd);
  place.peer = format("{} at {}", peer_text(end.spec.peer),
                      there ? there->text() : net_address(end.spec.peer).text());
  if (own.size() > 1 && !place.interface.empty()) place.peer += " by " + place.interface;
  if (services.integrity) {
    const auto here = base::local_address(fd);
    place.way = format(" to {} at {}", peer_text(end.spec.self), here ? here->text() : "unknown");
  }
  return place;
}

Result<std::unique_ptr<NetConnection>> make_connection(const NetEnd& end, const Services& services,
                                                       std::vector<base::Fd> sockets,
                                                       std::vector<LaneMacs> macs, bool joins) {
  std::vector<std::unique_ptr<LaneHelper>> helpers;
  const auto wanted = size_t(socket_threads(services.helper_threads, end.spec.self, end.spec.peer));
  // The slots of a GPU's link lie in host memory of its node.
  const int node =
      services.device != nullptr ? base::pci_numa_node(services.device->facts().bus_id) : -1;
  for (size_t i = 0; i < std::min(wanted, sockets.size()); ++i) {
    COLL_ASSIGN(auto helper, LaneHelper::create(node));
    helpers.push_back(std::move(helper));
  }
  SocketPlace place = place_of(end, services, sockets[0].get());
  const bool several = own_interfaces(services).size() > 1;
  if (end.spec.channel == 0 || several)  // the others are alike
    COLL_INFO(net, "NET/Socket : {} : {}{} sockets, {} helper threads", edge_text(end.spec),
              several ? format("{}, {}, ", place.interface, place.peer) : "", sockets.size(),
              helpers.size());
  return std::unique_ptr<NetConnection>(std::make_unique<SocketConnection>(
      end, std::move(sockets), std::move(macs), std::move(helpers), std::move(place), joins));
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
    const std::vector<Interface>& own = own_interfaces(services_);
    return encode({.lanes = wanted_lanes(end_, services_),
                   .joins = would_join(end_, services_),
                   .given = find_interface(own, end_.spec.nic.name),
                   .interfaces = own});
  }

  Result<std::unique_ptr<NetConnection>> connect(ByteView peer_blob, Deadline deadline) override {
    COLL_ASSIGN(const Offer theirs, decode_offer(end_, peer_blob));
    const base::Address at = choose_interface(theirs);
    std::vector<base::Fd> sockets;
    std::vector<LaneMacs> macs;
    for (uint32_t lane = 0; lane < std::min(theirs.lanes, wanted_lanes(end_, services_)); ++lane) {
      base::Session session;
      auto fd =
          rendezvous(end_, services_, lane_key(end_, services_, lane), deadline, at, &session);
      if (!fd && !by_.empty()) return std::move(fd.error()).within(by_);
      if (!fd) return std::move(fd.error());
      sockets.push_back(std::move(*fd));
      if (!services_.integrity) continue;
      COLL_ASSIGN(LaneMacs of_lane, LaneMacs::make(session));
      macs.push_back(std::move(of_lane));
    }
    const bool joins = theirs.joins && would_join(end_, services_);
    return make_connection(end_, services_, std::move(sockets), std::move(macs), joins);
  }

 private:
  // The send end's: by which interface it goes and where to. With one at each end the routes
  // decide.
  base::Address choose_interface(const Offer& theirs) {
    const std::vector<Interface>& own = own_interfaces(services_);
    if (end_.spec.direction != Direction::send || own.empty() || theirs.interfaces.empty() ||
        std::max(own.size(), theirs.interfaces.size()) < 2)
      return {};
    const bool apart = !in_one_namespace(end_.spec.self, end_.spec.peer);
    // By the ranks as well, so that messages that need one channel are spread, too.
    const auto turn = unsigned(end_.spec.channel + end_.spec.self.rank + end_.spec.peer.rank);
    const SocketPath path =
        choose_path(socket_paths(own, theirs.interfaces, apart),
                    find_interface(own, end_.spec.nic.name), theirs.given, turn);
    const Interface& mine = own[size_t(path.from)];
    // Not bound to the device: what comes back may come by another where two are in one subnet.
    services_.source.address = mine.address;
    by_ = format("by {} ({})", mine.name, mine.address.host_text());
    return theirs.interfaces[size_t(path.to)].address;
  }

  NetEnd end_;
  Services services_;
  std::string by_;  // which interface, where there is a choice
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
