#include "cmd/rails/nics.h"

#include <algorithm>

#include "base/format.h"
#include "base/host_devices.h"
#include "base/interface_choice.h"
#include "runtime/bootstrap/interfaces.h"
#include "transport/net/ib/devices.h"
#include "transport/net/ib/queue_pair.h"
#include "transport/net/ib/wire_blob.h"

namespace collctl::runtime {

namespace {

using transport::IbDevices;
using transport::IbGid;
using transport::IbPort;

constexpr size_t kMostWord = 1024;

void bound(RailHost& found) {
  while (found.nics.size() > kMostRailNics) {
    found.unused.push_back(
        format("{}: at most {} NICs of a host are tried", found.nics.back().name, kMostRailNics));
    found.nics.pop_back();
  }
  if (found.unused.size() > kMostUnusedNics) found.unused.resize(kMostUnusedNics);
  for (std::string& text : found.unused) text = text.substr(0, kMostWord);
}

RailNic nic_of(const IbPort& port) {
  return {
      .name = port.text(),
      .link_layer = port.ethernet() ? base::drivers::kLinkEthernet : base::drivers::kLinkInfiniBand,
      .rate_mbps = base::drivers::port_mbps(port.facts),
      .mtu = int32_t(transport::mtu_bytes(uint8_t(port.facts.active_mtu))),
      .lid = port.facts.lid,
      .gids = port.gids};
}

Status find_interfaces_of_host(const RailNicFilter& filter, RailHost& found) {
  const bool named = !filter.interfaces.empty();
  std::string names = filter.interfaces;
  const auto facts = base::net_interfaces();
  const bool any = std::ranges::any_of(facts, [](const auto& each) { return each.aside.empty(); });
  // A host may have no way but a tunnel.
  if (!named && !any)
    for (const std::string_view inner : base::kInnerInterfaces)
      names += format("{}{}", names.empty() ? "^" : ",", inner);
  if (!named && any) {
    for (const base::NetInterface& each : facts) {
      if (each.aside.empty()) continue;
      names += format("{}{}", names.empty() ? "^=" : ",", each.name);
      if (each.up && !each.loopback)
        found.unused.push_back(format("{}: {}", each.name, each.aside));
    }
  }
  auto interfaces = find_interfaces(names, filter.family, nullptr, 64);
  // A host with nothing but loopback can still be tried against itself.
  if (!interfaces && !named && interfaces.error().code == ErrorCode::unavailable)
    interfaces = find_interfaces("=lo", filter.family, nullptr, 1);
  if (!interfaces) return std::move(interfaces.error());
  for (const Interface& each : *interfaces) {
    RailNic nic{.name = each.name, .address = each.address};
    for (const base::NetInterface& fact : facts) {
      if (fact.name != each.name) continue;
      nic.mtu = fact.mtu;
      nic.rate_mbps = std::max<int64_t>(fact.speed_mbps, 0);
      for (const base::InterfaceAddress& at : fact.addresses)
        if (at.text == nic.address.host_text()) nic.network = base::network_of(at.text, at.prefix);
    }
    found.nics.push_back(std::move(nic));
  }
  return {};
}

}  // namespace

Status find_rail_nics(const RailNicFilter& filter, RailHost& found, std::shared_ptr<void>& keep) {
  COLL_ASSIGN(const transport::IbSettings settings, transport::read_ib_settings());
  if (filter.net != "socket") {
    Result<std::shared_ptr<IbDevices>> devices =
        settings.disabled ? Error(ErrorCode::unavailable, "COLLCTL_IB_DISABLE is set")
                          : IbDevices::open(settings);
    if (devices) {
      for (const auto& port : (*devices)->ports()) found.nics.push_back(nic_of(*port));
      found.unused = (*devices)->refused();
      keep = *devices;
    } else {
      if (devices.error().code == ErrorCode::usage) return std::move(devices.error());
      found.why_no_rdma = devices.error().chain().substr(0, kMostWord);
    }
  }
  if (found.nics.empty() && filter.net != "ib") COLL_TRY(find_interfaces_of_host(filter, found));
  bound(found);
  return {};
}

// In bytes alone.
static void fields(base::Record& io, RailNic& nic) {
  io.field("name", nic.name, kMostWord);
  io.field("link_layer", nic.link_layer);
  io.field("rate_mbps", nic.rate_mbps);
  io.field("mtu", nic.mtu);
  io.field("lid", nic.lid);
  io.field("address", nic.address);
  io.field("network", nic.network, kMostWord);
  const auto gid_fields = [&](IbGid& gid) {
    for (uint8_t& byte : gid.gid.raw) io.field("gid", byte);
    io.field("type", gid.type);
    io.field("index", gid.index);
    io.field("net_bits", gid.net_bits);
  };
  io.list("gids", nic.gids, gid_fields, transport::kIbMaxGids);
}

void fields(base::Record& io, RailHost& host) {
  io.field("host", host.host, kMostWord);
  io.field("rank", host.rank);
  io.field("hash", host.hash);
  io.field("network_namespace", host.network_namespace);
  io.field("beside_rdma", host.beside_rdma);
  io.field("nics", host.nics, kMostRailNics);
  io.field("unused", host.unused, kMostUnusedNics, kMostWord);
  io.field("why_no_rdma", host.why_no_rdma, kMostWord);
  io.field("gpus", host.gpus);
  for (const RailGpu& gpu : host.gpus.list)
    if (gpu.nics.size() != host.nics.size()) io.fail("gpus", "all NICs of their host");
}

}  // namespace collctl::runtime
