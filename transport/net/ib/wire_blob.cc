#include "transport/net/ib/wire_blob.h"

#include "base/format.h"

namespace collctl::transport {

namespace {

constexpr uint32_t kIbBlobMagic = 0x31424943;
constexpr size_t kMaxName = 64;
constexpr uint32_t kMaxQp = 0xffffff;

Error malformed(const char* what) {
  return Error(ErrorCode::lost, format("the peer's RDMA connection data has {}", what));
}

IbRailBlob read_rail(ByteReader& r) {
  IbRailBlob rail;
  rail.device = r.get_string(kMaxName);
  rail.port = r.get<uint8_t>();
  rail.link_layer = r.get<uint8_t>();
  rail.mtu = r.get<uint8_t>();
  rail.lid = r.get<uint16_t>();
  rail.clear_key = r.get<uint32_t>();
  const auto gids = r.get<uint8_t>();
  if (gids > kIbMaxGids) r.fail();
  for (size_t i = 0; r.ok() && i < gids; ++i) {
    IbGid gid;
    gid.gid = r.get<base::drivers::VerbsGid>();
    gid.type = r.get<uint8_t>();
    gid.index = r.get<uint8_t>();
    gid.net_bits = r.get<uint8_t>();
    rail.gids.push_back(gid);
  }
  return rail;
}

const char* complaint(const IbRailBlob& rail) {
  if (rail.device.empty() || rail.port == 0) return "a port without a name";
  for (const char c : rail.device)
    if (c < 0x21 || c > 0x7e) return "a device whose name cannot be printed";
  if (rail.mtu < 1 || rail.mtu > 5) return "an invalid MTU";
  if (rail.link_layer > base::drivers::kLinkEthernet) return "an unknown link layer";
  for (const IbGid& gid : rail.gids)
    if (gid.type > base::drivers::kGidRoceV2 || gid.net_bits > 128) return "an unknown address";
  return nullptr;
}

}  // namespace

Bytes encode(const IbBlob& blob) {
  ByteWriter w;
  w.put(kIbBlobMagic).put(blob.split).put(blob.failover).put(blob.clear_address);
  w.put(uint8_t(blob.rails.size())).put(uint8_t(blob.lanes.size()));
  for (const IbRailBlob& rail : blob.rails) {
    w.put_string(rail.device).put(rail.port).put(rail.link_layer).put(rail.mtu).put(rail.lid);
    w.put(rail.clear_key).put(uint8_t(rail.gids.size()));
    for (const IbGid& gid : rail.gids)
      w.put(gid.gid).put(uint8_t(gid.type)).put(gid.index).put(gid.net_bits);
  }
  for (const IbLaneBlob& lane : blob.lanes) w.put(lane.qp).put(lane.rail);
  return w.take();
}

Result<IbBlob> decode_ib_blob(ByteView bytes) {
  ByteReader r(bytes);
  IbBlob blob;
  if (r.get<uint32_t>() != kIbBlobMagic) return malformed("another format");
  blob.split = r.get<uint8_t>();
  blob.failover = r.get<uint8_t>();
  blob.clear_address = r.get<uint64_t>();
  const auto rails = r.get<uint8_t>();
  const auto lanes = r.get<uint8_t>();
  if (!r.ok() || rails == 0 || rails > kIbMaxRails || lanes == 0 || lanes > kIbMaxLanes)
    return malformed("an invalid number of ports or queue pairs");
  for (size_t i = 0; r.ok() && i < rails; ++i) blob.rails.push_back(read_rail(r));
  for (size_t i = 0; r.ok() && i < lanes; ++i) {
    IbLaneBlob lane;
    lane.qp = r.get<uint32_t>();
    lane.rail = r.get<uint8_t>();
    blob.lanes.push_back(lane);
  }
  if (!r.ok() || !r.at_end()) return malformed("another length");
  for (const IbRailBlob& rail : blob.rails)
    if (const char* what = complaint(rail)) return malformed(what);
  for (const IbLaneBlob& lane : blob.lanes)
    if (lane.rail >= rails || lane.qp > kMaxQp) return malformed("an invalid queue pair");
  return blob;
}

std::string port_text(const IbRailBlob& rail) {
  return format("{}:{}", rail.device, rail.port);
}

}  // namespace collctl::transport
