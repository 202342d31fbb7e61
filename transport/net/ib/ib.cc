#include "transport/net/ib/ib.h"

#include <algorithm>

#include "base/check.h"
#include "base/format.h"
#include "transport/device/device.h"
#include "transport/edge.h"
#include "transport/net/ib/receiver.h"
#include "transport/net/ib/route.h"
#include "transport/net/ib/sender.h"
#include "transport/net/rendezvous.h"

namespace collctl::transport {

using namespace base::drivers;

namespace {

constexpr uint64_t kControlPart = 0x6962;  // of the edge's keys: the TCP connection
constexpr uint32_t kClearBatches = 4;      // of each stream that can be in flight at once
constexpr uint32_t kInlineEntries = 4;     // of clear-to-send
constexpr uint32_t kReceiveBatch = 8;      // receives posted with one call
constexpr uint32_t kMostCost = 4095;       // of a message, in requests (IbWorkId)

class IbHalf : public NetHalf {
 public:
  IbHalf(const NetEnd& end, const Services& services) : services_(services) { parts_.end = end; }
  Result<Bytes> describe(Deadline deadline) override;
  Result<std::unique_ptr<NetConnection>> connect(ByteView blob, Deadline deadline) override;

 private:
  bool sends() const { return parts_.end.spec.direction == Direction::send; }
  uint64_t control_key() const {
    return edge_key(parts_.end.spec, services_.comm_hash, kControlPart);
  }
  Status open_rails();
  Status make_lanes();
  Status make_clear_entries();
  IbQueueSizes sizes_on(const IbPort& port) const;
  IbBlob blob() const;
  Status join(const IbBlob& theirs, Deadline deadline);
  Result<std::unique_ptr<NetConnection>> receiver(base::Fd control, Deadline deadline);
  Result<IbQueuePair> flusher(size_t rail, Deadline deadline);

  Services services_;
  IbParts parts_;
};

// --- before the exchange ---

Result<Bytes> IbHalf::describe(Deadline) {
  COLL_ASSIGN(parts_.settings, read_ib_settings());
  COLL_ASSIGN(parts_.devices, IbDevices::open(parts_.settings));
  parts_.device = services_.device;
  if (!ImmediateFormat(parts_.end.streams).fits())
    return Error(
        ErrorCode::usage,
        "these buffers are too large for NET/IB's announcements (32 bits for size and number)",
        "lower COLLCTL_BUFFSIZE or COLLCTL_STEPS");
  COLL_TRY(open_rails());
  COLL_TRY(make_clear_entries());
  COLL_TRY(make_lanes());
  COLL_TRY(expect_peer(parts_.end, services_, control_key()));
  return encoded(blob());
}

Status IbHalf::open_rails() {
  COLL_ASSIGN(const auto ports,
              ports_towards(*parts_.devices, parts_.end.spec, services_, parts_.settings));
  for (IbPort* port : ports) parts_.rails.emplace_back().port = port;
  return {};
}

// The entries that the peer writes (send end), or that are written to the peer.
Status IbHalf::make_clear_entries() {
  COLL_ASSIGN(parts_.clear_entries, pages_for_rdma(IbSender::clear_bytes(parts_.end.streams)));
  std::vector<IbPort*> ports;
  for (const IbRail& rail : parts_.rails) ports.push_back(rail.port);
  COLL_ASSIGN(parts_.clear_memory,
              IbMemory::host(ports, parts_.clear_entries.get(), parts_.clear_entries.size(),
                             IbMemory::Order::strict));
  return {};
}

// A send queue holds every message of the window, a receive queue their announcements; the other
// way go entries of clear-to-send, half a window at a time.
IbQueueSizes IbHalf::sizes_on(const IbPort& port) const {
  uint32_t messages = 0, works = 0, streams = 0;
  for (const NetStream& stream : parts_.end.streams) {
    if (stream.window == 0) continue;
    ++streams;
    messages += stream.window;
    works +=
        stream.window * IbSender::works_of(stream.max_bytes, port.facts.max_message_bytes, true);
  }
  const uint32_t entries = kClearBatches * streams;
  IbQueueSizes sizes;
  sizes.sends = sends() ? works : 2 * entries;
  sizes.receives = sends() ? entries : messages;
  sizes.inline_bytes = sends() ? 0 : kInlineEntries * sizeof(ClearToSend);
  return sizes;
}

Status IbHalf::make_lanes() {
  for (size_t r = 0; r < parts_.rails.size(); ++r) {
    IbRail& rail = parts_.rails[r];
    const uint32_t most = uint32_t(std::max(1, rail.port->device->facts().max_qp_work));
    IbQueueSizes sizes = sizes_on(*rail.port);
    for (const NetStream& stream : parts_.end.streams) {
      const uint32_t works =
          IbSender::works_of(stream.max_bytes, rail.port->facts.max_message_bytes, true);
      if (works > std::min(most, kMostCost))
        return Error(
            ErrorCode::usage,
            format("{} sends at most {} bytes at once, a step of {} bytes takes {} requests",
                   rail.port->text(), rail.port->facts.max_message_bytes, stream.max_bytes, works),
            "lower COLLCTL_BUFFSIZE");
    }
    // A send queue that is short of room only makes messages wait; receives must all fit.
    sizes.sends = std::min(sizes.sends, most);
    // Receives that were taken are replaced several at a time: so many more are there.
    const uint32_t batch = std::clamp(most - std::min(most, sizes.receives) + 1, 1u, kReceiveBatch);
    sizes.receives += batch - 1;
    const auto lanes = uint32_t(parts_.settings.qps);
    const uint32_t flushes = services_.device != nullptr ? IbReceiver::kFlushRoom : 0;
    COLL_ASSIGN(
        rail.completions,
        IbCompletions::make(*rail.port->device, lanes * (sizes.sends + sizes.receives) + flushes));
    for (uint32_t l = 0; l < lanes; ++l) {
      IbLane lane;
      COLL_ASSIGN(lane.qp, IbQueuePair::make(*rail.port, rail.completions, sizes, kRemoteWrite,
                                             parts_.settings));
      lane.rail = r;
      lane.sends = lane.room = sizes.sends;
      lane.inline_bytes = lane.qp.inline_bytes();
      lane.receive_batch = batch;
      COLL_TRY_IN(lane.qp.post_receives(encode({.work = IbWork::receive}), sizes.receives),
                  rail.port->text());
      parts_.lanes.push_back(std::move(lane));
    }
  }
  // Ports take turns, so that lanes in a row use all of them.
  const auto qps = size_t(parts_.settings.qps);
  std::vector<IbLane> ordered;
  for (size_t l = 0; l < qps; ++l)
    for (size_t r = 0; r < parts_.rails.size(); ++r)
      ordered.push_back(std::move(parts_.lanes[r * qps + l]));
  parts_.lanes = std::move(ordered);
  return {};
}

IbBlob IbHalf::blob() const {
  IbBlob blob;
  blob.split = parts_.settings.split ? 1 : 0;
  blob.failover = parts_.settings.failover ? 1 : 0;
  blob.clear_address = sends() ? reinterpret_cast<uintptr_t>(parts_.clear_entries.get()) : 0;
  for (size_t r = 0; r < parts_.rails.size(); ++r) {
    blob.rails.push_back(rail_blob(*parts_.rails[r].port));
    if (sends()) blob.rails.back().clear_key = parts_.clear_memory.remote_key(r);
  }
  for (const IbLane& lane : parts_.lanes)
    blob.lanes.push_back({.qp = lane.qp.number(), .rail = uint8_t(lane.rail)});
  return blob;
}

// --- after it ---

Result<std::unique_ptr<NetConnection>> IbHalf::connect(ByteView bytes, Deadline deadline) {
  auto theirs = decoded<IbBlob>(bytes);
  if (!theirs) return std::move(theirs.error());
  COLL_CHECK(!parts_.lanes.empty());
  COLL_TRY(join(*theirs, deadline));
  // The send end opens it when its queue pairs are ready: who has the connection knows that.
  COLL_ASSIGN(base::Fd control, rendezvous(parts_.end, services_, control_key(), deadline));
  if (!sends()) return receiver(std::move(control), deadline);
  return std::unique_ptr<NetConnection>(
      std::make_unique<IbSender>(std::move(parts_), std::move(control)));
}

Status IbHalf::join(const IbBlob& theirs, Deadline deadline) {
  // The end that has fewer ports or queue pairs decides.
  const size_t lanes = std::min(parts_.lanes.size(), theirs.lanes.size());
  parts_.lanes.resize(lanes);
  parts_.split = parts_.settings.split && theirs.split != 0 && lanes > 1;
  parts_.failover = parts_.settings.failover && theirs.failover != 0 && parts_.rails.size() > 1 &&
                    theirs.rails.size() > 1;
  if (parts_.failover) parts_.split = false;  // a message must be on one lane to be sent again
  parts_.peer_clear_address = theirs.clear_address;
  for (const IbRailBlob& rail : theirs.rails) parts_.peer_clear_keys.push_back(rail.clear_key);
  for (size_t l = 0; l < lanes; ++l) {
    IbLane& lane = parts_.lanes[l];
    lane.peer_rail = theirs.lanes[l].rail;
    const IbPort& port = *parts_.rails[lane.rail].port;
    lane.name = {.local = port.text(),
                 .remote = port_text(theirs.rails[lane.peer_rail]),
                 .peer = peer_text(parts_.end.spec.peer),
                 .qp = lane.qp.number(),
                 .remote_qp = theirs.lanes[l].qp};
    COLL_ASSIGN(IbPath path, path_towards(port, theirs.rails[lane.peer_rail], lane.name, sends(),
                                          parts_.settings));
    path.peer_qp = theirs.lanes[l].qp;
    COLL_TRY_IN(lane.qp.connect(port, path, parts_.settings, deadline), lane.name.text());
    log_lane(lane.name, port, path);
  }
  return {};
}

Result<std::unique_ptr<NetConnection>> IbHalf::receiver(base::Fd control, Deadline deadline) {
  std::vector<IbQueuePair> flushers;
  base::Mapping target;
  IbMemory memory;
  if (must_flush(services_.device.get(), parts_.end.spec.nic.gdr, parts_.settings)) {
    COLL_ASSIGN(target, pages_for_rdma(4096));
    std::vector<IbPort*> ports;
    for (const IbRail& rail : parts_.rails) ports.push_back(rail.port);
    COLL_ASSIGN(memory,
                IbMemory::host(ports, target.get(), target.size(), IbMemory::Order::strict));
    for (size_t r = 0; r < parts_.rails.size(); ++r) {
      COLL_ASSIGN(IbQueuePair qp, flusher(r, deadline));
      flushers.push_back(std::move(qp));
    }
  }
  return std::unique_ptr<NetConnection>(
      std::make_unique<IbReceiver>(std::move(parts_), std::move(flushers), std::move(target),
                                   std::move(memory), std::move(control)));
}

// A queue pair that is its own peer.
Result<IbQueuePair> IbHalf::flusher(size_t rail_index, Deadline deadline) {
  IbRail& rail = parts_.rails[rail_index];
  COLL_ASSIGN(IbQueuePair qp,
              IbQueuePair::make(*rail.port, rail.completions,
                                {.sends = IbReceiver::kFlushRoom, .receives = 1, .inline_bytes = 0},
                                kLocalWrite | kRemoteRead, parts_.settings));
  IbPath path;
  path.peer_qp = qp.number();
  path.mtu = uint8_t(rail.port->facts.active_mtu);
  path.lid = rail.port->facts.lid;
  if (!rail.port->gids.empty()) {
    const auto pair = choose_gids(rail.port->gids, rail.port->gids, parts_.settings.roce_version);
    path.gid = pair->receiver.gid;
    path.gid_index = pair->receiver.index;
    path.global = rail.port->ethernet() || path.lid == 0;
  }
  COLL_TRY_IN(qp.connect(*rail.port, path, parts_.settings, deadline), "flush of GPU memory");
  return qp;
}

}  // namespace

Result<std::string> ib_reaches_gpu(const std::shared_ptr<Device>& device) {
  constexpr size_t kPiece = 2u << 20;
  COLL_ASSIGN(const IbSettings settings, read_ib_settings());
  COLL_ASSIGN(const auto devices, IbDevices::open(settings));
  COLL_ASSIGN(const DeviceMemory piece, DeviceMemory::make(device, kPiece, false));
  std::vector<IbPort*> ports;
  for (const auto& port : devices->ports()) ports.push_back(port.get());
  std::string how;
  COLL_TRY(
      IbMemory::device(ports, *device, piece.data(), kPiece, settings, data_order(settings), how));
  return how;
}

Result<std::unique_ptr<NetHalf>> ib_open(const NetEnd& end, const Services& services) {
  return std::unique_ptr<NetHalf>(std::make_unique<IbHalf>(end, services));
}

}  // namespace collctl::transport
