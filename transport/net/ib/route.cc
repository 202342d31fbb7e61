#include "transport/net/ib/route.h"

#include <algorithm>

#include "base/format.h"
#include "base/host_facts.h"
#include "base/log.h"
#include "base/processors.h"
#include "transport/device/device.h"
#include "transport/edge.h"
#include "transport/net/ib/choice.h"

namespace collctl::transport {

using namespace base::drivers;

namespace {

// The NUMA node of this rank's cores; -1: it may run on several.
int home_node() {
  const base::Processors& all = base::host_processors();
  int node = -1;
  for (const int core : base::affinity_cores()) {
    const base::Processor* processor = all.find(core);
    if (processor == nullptr) return -1;
    const int here = all.nodes[size_t(processor->numa)].id;
    if (node >= 0 && here != node) return -1;
    node = here;
  }
  return node;
}

}  // namespace

Result<std::vector<IbPort*>> ports_towards(const IbDevices& devices, const LinkSpec& spec,
                                           const Services& services, const IbSettings& settings) {
  std::vector<IbCandidate> candidates;
  for (const auto& port : devices.ports())
    candidates.push_back({.device = port->device->name(),
                          .port = port->number,
                          .mbps = port_mbps(port->facts),
                          .numa = port->device->numa_node(),
                          .ethernet = port->ethernet(),
                          .card = port->device->facts().system_guid});
  const uint8_t common = spec.self.nets & spec.peer.nets;
  const std::vector<size_t> chosen =
      choose_ports(candidates, {.nic = spec.nic.name,
                                .channel = spec.channel,
                                .numa = services.device != nullptr
                                            ? base::pci_numa_node(services.device->facts().bus_id)
                                            : home_node(),
                                .local_rank = spec.self.device,
                                .ethernet = (common & kNetInfiniBand) == 0,
                                .infiniband = (common & kNetInfiniBand) != 0,
                                .merge = settings.merge_ports});
  if (chosen.empty())
    return Error(ErrorCode::unavailable,
                 format("no RDMA port here has the link layer of {}'s", peer_text(spec.peer)));
  std::vector<IbPort*> ports;
  for (const size_t i : chosen) ports.push_back(devices.ports()[i].get());
  return ports;
}

IbRailBlob rail_blob(const IbPort& port) {
  IbRailBlob blob;
  blob.device = port.device->name();
  blob.port = port.number;
  blob.link_layer = port.facts.link_layer;
  blob.mtu = uint8_t(port.facts.active_mtu);
  blob.lid = port.facts.lid;
  blob.gids = port.gids;
  return blob;
}

Result<IbPath> path_towards(const IbPort& port, const IbRailBlob& peer, const IbLaneName& lane,
                            bool sends, const IbSettings& settings) {
  const bool ethernet = peer.link_layer == kLinkEthernet;
  if (ethernet != port.ethernet())
    return Error(ErrorCode::unavailable,
                 format("{}: one port is InfiniBand, the other Ethernet", lane.text()),
                 "choose ports of one kind on all hosts (COLLCTL_IB_HCA)");
  IbPath path;
  path.mtu = std::min(uint8_t(port.facts.active_mtu), peer.mtu);
  path.lid = peer.lid;
  const auto pair = sends ? choose_gids(port.gids, peer.gids, settings.roce_version)
                          : choose_gids(peer.gids, port.gids, settings.roce_version);
  if (pair) {
    const IbGid& mine = sends ? pair->sender : pair->receiver;
    const IbGid& other = sends ? pair->receiver : pair->sender;
    path.gid = other.gid;
    path.gid_index = mine.index;
    // InfiniBand: inside one subnet the LID is the address.
    path.global = ethernet || !same_subnet(mine, other) || peer.lid == 0;
    return path;
  }
  if (!ethernet && peer.lid != 0) return path;
  std::string here, there;
  for (const IbGid& gid : port.gids)
    here += format(" {} ({})", gid_text(gid.gid), gid_type_text(gid.type));
  for (const IbGid& gid : peer.gids)
    there += format(" {} ({})", gid_text(gid.gid), gid_type_text(gid.type));
  return Error(
      ErrorCode::unavailable,
      format("{}: no address here matches one there: here{}; there{}", lane.text(), here, there),
      "give both ports an address of the same kind (RoCE v2, IPv4), or choose by "
      "COLLCTL_IB_GID_INDEX");
}

void log_lane(const IbLaneName& lane, const IbPort& port, const IbPath& path) {
  std::string address = format("LID {}", port.facts.lid);
  for (const IbGid& gid : port.gids)
    if (path.global && gid.index == path.gid_index)
      address = format("GID {} {} ({})", gid.index, gid_text(gid.gid), gid_type_text(gid.type));
  COLL_INFO(net, "NET/IB: {} Port {} qpn {} mtu {} {} -> {}", port.device->name(), port.number,
            lane.qp, mtu_bytes(path.mtu), address, lane.text());
}

}  // namespace collctl::transport
