#include "transport/net/ib/wire_blob.h"

#include <algorithm>

#include "base/format.h"
#include "base/record.h"

namespace collctl::transport {

namespace {

constexpr uint32_t kIbBlobMagic = 0x31424943;
constexpr size_t kMaxName = 64;
constexpr uint32_t kMaxQp = 0xffffff;

}  // namespace

static void fields(Record& io, IbGid& gid) {
  for (uint8_t& byte : gid.gid.raw) io.field("gid", byte);
  io.field("type", gid.type, 0, base::drivers::kGidRoceV2);
  io.field("index", gid.index);
  io.field("net_bits", gid.net_bits, 0, 128);
}

static void fields(Record& io, IbRailBlob& rail) {
  io.field("device", rail.device, kMaxName);
  io.field("port", rail.port, 1);
  io.field("link_layer", rail.link_layer, 0, base::drivers::kLinkEthernet);
  io.field("mtu", rail.mtu, 1, 5);
  io.field("lid", rail.lid);
  io.field("clear_key", rail.clear_key);
  io.field("gids", rail.gids, kIbMaxGids);
  const auto printed = [](char c) { return c > 0x20 && c < 0x7f; };
  if (rail.device.empty() || !std::all_of(rail.device.begin(), rail.device.end(), printed))
    io.fail("device", "a name that can be printed");
}

static void fields(Record& io, IbLaneBlob& lane) {
  io.field("qp", lane.qp, 0, kMaxQp);
  io.field("rail", lane.rail);
}

void fields(Record& io, IbBlob& blob) {
  auto magic = kIbBlobMagic;
  io.field("magic", magic, magic, magic);
  io.field("split", blob.split);
  io.field("failover", blob.failover);
  io.field("clear_address", blob.clear_address);
  io.field("rails", blob.rails, kIbMaxRails);
  io.field("lanes", blob.lanes, kIbMaxLanes);
  if (blob.rails.empty() || blob.lanes.empty()) io.fail("lanes", "ports and queue pairs");
  for (const IbLaneBlob& lane : blob.lanes)
    if (lane.rail >= blob.rails.size()) io.fail("rail", "that of a port");
}

std::string port_text(const IbRailBlob& rail) {
  return format("{}:{}", rail.device, rail.port);
}

}  // namespace collctl::transport
