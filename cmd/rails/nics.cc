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

constexpr size_t kMostWord = 1024, kMostGpuBytes = size_t{8} << 20;

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

namespace {

// As ByteWriter::put_string, whose growth g++ 12 takes for an overflow when it is inlined here.
void write(ByteWriter& w, const std::string& text) {
  w.put(uint32_t(text.size()));
  w.put_rest(base::bytes_of(text));
}

void write(ByteWriter& w, const RailNic& nic) {
  write(w, nic.name);
  w.put(nic.link_layer).put(nic.rate_mbps).put(nic.mtu).put(nic.lid);
  nic.address.write(w);
  write(w, nic.network);
  w.put(uint32_t(nic.gids.size()));
  for (const IbGid& gid : nic.gids) {
    w.put(gid.gid).put(gid.type).put(gid.index).put(gid.net_bits);
  }
}

RailNic read_nic(ByteReader& r) {
  RailNic nic;
  nic.name = r.get_string(kMostWord);
  nic.link_layer = r.get<uint8_t>();
  nic.rate_mbps = r.get<int64_t>();
  nic.mtu = r.get<int32_t>();
  nic.lid = r.get<uint16_t>();
  nic.address = base::Address::read(r);
  nic.network = r.get_string(kMostWord);
  const auto gids = r.get<uint32_t>();
  if (gids > transport::kIbMaxGids) r.fail();
  for (uint32_t g = 0; g < gids && r.ok(); ++g) {
    IbGid& gid = nic.gids.emplace_back();
    gid.gid = r.get<base::drivers::VerbsGid>();
    gid.type = r.get<uint32_t>();
    gid.index = r.get<uint8_t>();
    gid.net_bits = r.get<uint8_t>();
  }
  return nic;
}

}  // namespace

Bytes encode(const RailHost& host) {
  ByteWriter w;
  w.put(host.rank).put(host.hash).put(host.network_namespace);
  w.put(int32_t(host.host.id));
  write(w, host.host.name);
  write(w, host.why_no_rdma);
  w.put(uint32_t(host.unused.size()));
  for (const std::string& text : host.unused) write(w, text);
  w.put(uint32_t(host.nics.size()));
  for (const RailNic& nic : host.nics) write(w, nic);
  w.put_bytes(base::encoded(host.gpus));
  return w.take();
}

Result<RailHost> decode_rail_host(ByteView bytes) {
  ByteReader r(bytes);
  RailHost host;
  host.rank = r.get<int32_t>();
  host.hash = r.get<uint64_t>();
  host.network_namespace = r.get<uint64_t>();
  host.host.id = HostId(r.get<int32_t>());
  host.host.name = r.get_string(kMostWord);
  host.why_no_rdma = r.get_string(kMostWord);
  const auto unused = r.get<uint32_t>();
  if (unused > kMostUnusedNics) r.fail();
  for (uint32_t i = 0; i < unused && r.ok(); ++i) host.unused.push_back(r.get_string(kMostWord));
  const auto nics = r.get<uint32_t>();
  if (nics > kMostRailNics) r.fail();
  for (uint32_t i = 0; i < nics && r.ok(); ++i) host.nics.push_back(read_nic(r));
  Record io(r.get_bytes(kMostGpuBytes));
  fields(io, host.gpus);
  if (!io.status() || !io.rest().empty()) r.fail();
  for (const RailGpu& gpu : host.gpus.list)
    if (gpu.nics.size() != host.nics.size()) r.fail();
  if (!r.ok() || !r.at_end())
    return Error(ErrorCode::lost, "a rank's list of NICs is malformed",
                 "is the same version of collctl on all hosts?");
  return host;
}

}  // namespace collctl::runtime
