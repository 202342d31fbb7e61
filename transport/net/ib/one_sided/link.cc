#include "transport/net/ib/one_sided/link.h"

#include <algorithm>
#include <utility>

#include "base/format.h"
#include "transport/edge.h"
#include "transport/net/ib/route.h"
#include "transport/net/ib/trouble.h"

namespace collctl::transport {

using namespace base::drivers;

namespace {

constexpr uint32_t kOneSidedBatch = 8;    // receives posted with one call
constexpr uint32_t kOneSidedInline = 64;  // bytes; as Request::data
constexpr int kMostReadsOut = 16;         // in flight at once, of a queue pair
constexpr size_t kMostLinkBlob = 16384;

// Facts that the two ends of a link exchange before it exists.
struct LinkBlob {
  static constexpr const char* kRecord = "list of ports";
  uint8_t reads = kMostReadsOut;  // that may be in flight to this end, of a queue pair
  bool flushes = false;
  IbBlob ports;
};
void fields(Record& io, LinkBlob& blob) {
  io.field("reads", blob.reads, 1, kMostReadsOut);
  io.field("flushes", blob.flushes);
  io.field("ports", blob.ports);
}

uint8_t reads_of(int device_says) {
  return uint8_t(std::clamp(device_says, 1, kMostReadsOut));
}

}  // namespace

// --- set-up ---

Status IbOneSidedLink::make() {
  name_ = peer_text(o_.spec.peer);
  // Ports take turns, so that queue pairs in a row use all of them.
  for (int q = 0; q < o_.settings.qps; ++q)
    for (size_t own = 0; own < o_.uses.size(); ++own) COLL_TRY(make_lane(own));
  return {};
}

Status IbOneSidedLink::make_lane(size_t own) {
  IbOneSidedRail& rail = o_.rails[o_.uses[own]];
  const auto most = uint32_t(std::max(1, rail.port->device->facts().max_qp_work));
  // Signals come by the first queue pair alone, as long as it lives.
  const bool signals = lanes_.empty() || o_.settings.failover;
  const uint32_t receives = signals ? std::min(kReceives, most) : 1;
  const IbQueueSizes sizes{
      .sends = std::min(kSends, most), .receives = receives, .inline_bytes = kOneSidedInline};
  Lane lane;
  COLL_ASSIGN(lane.qp, IbQueuePair::make(*rail.port, rail.asked, sizes,
                                         kLocalWrite | kRemoteWrite | kRemoteRead, o_.settings,
                                         &rail.arrivals));
  lane.rail = o_.uses[own];
  lane.own = own;
  lane.room = sizes.sends;
  lane.inline_bytes = lane.qp.inline_bytes();
  lane.receive_batch = std::min(kOneSidedBatch, receives);
  lane.write_bytes = rail.port->facts.max_message_bytes;
  const int how = o_.settings.adaptive_routing;
  const bool adaptive = how < 0 ? !rail.port->ethernet() : how != 0;
  lane.large_bytes = adaptive ? o_.settings.large_bytes : UINT32_MAX;
  COLL_TRY_IN(lane.qp.post_receives(encode({.work = IbWork::receive}), receives),
              rail.port->text());
  lanes_.push_back(std::move(lane));
  return {};
}

Bytes IbOneSidedLink::describe() const {
  LinkBlob described;
  described.flushes = o_.flush;
  IbBlob& blob = described.ports;
  blob.failover = o_.settings.failover && o_.uses.size() > 1 && !o_.flush ? 1 : 0;
  for (const size_t use : o_.uses) {
    const IbPort& port = *o_.rails[use].port;
    blob.rails.push_back(rail_blob(port));
    described.reads = std::min(described.reads, reads_of(port.device->facts().max_reads_in));
  }
  for (const Lane& lane : lanes_)
    blob.lanes.push_back({.qp = lane.qp.number(), .rail = uint8_t(lane.own)});
  return encoded(described);
}

Status IbOneSidedLink::connect(ByteView bytes, Deadline deadline) {
  auto described = decoded<LinkBlob>(bytes);
  if (!described || bytes.size() > kMostLinkBlob)
    return Error(ErrorCode::lost, format("{}: its list of ports is malformed", name_));
  peer_flushes_ = described->flushes;
  const IbBlob& theirs = described->ports;
  peer_rails_ = theirs.rails.size();
  // The end that has fewer queue pairs decides.
  lanes_.resize(std::min(lanes_.size(), theirs.lanes.size()));
  // Not where memory shows writes only after a read by the same adapter: that may have died.
  failover_ = o_.settings.failover && o_.uses.size() > 1 && !o_.flush && theirs.failover != 0 &&
              lanes_.size() > 1;
  for (size_t l = 0; l < lanes_.size(); ++l) {
    Lane& lane = lanes_[l];
    lane.peer = theirs.lanes[l].rail;
    const IbPort& port = *o_.rails[lane.rail].port;
    const IbRailBlob& there = theirs.rails[lane.peer];
    lane.name = {.local = port.text(),
                 .remote = port_text(there),
                 .peer = name_,
                 .qp = lane.qp.number(),
                 .remote_qp = theirs.lanes[l].qp};
    COLL_ASSIGN(IbPath path, path_towards(port, there, lane.name,
                                          o_.spec.direction == Direction::send, o_.settings));
    path.peer_qp = theirs.lanes[l].qp;
    path.reads_in = reads_of(port.device->facts().max_reads_in);
    path.reads_out = std::min(reads_of(port.device->facts().max_reads_out), described->reads);
    COLL_TRY_IN(lane.qp.connect(port, path, o_.settings, deadline), lane.name.text());
    log_lane(lane.name, port, path);
  }
  return {};
}

std::vector<std::pair<size_t, uint32_t>> IbOneSidedLink::queue_pairs() const {
  std::vector<std::pair<size_t, uint32_t>> pairs;
  for (const Lane& lane : lanes_) pairs.emplace_back(lane.rail, lane.qp.number());
  return pairs;
}

std::string IbOneSidedLink::via() const {
  const auto lane =
      std::find_if(lanes_.begin(), lanes_.end(), [](const Lane& each) { return each.alive; });
  const size_t rail = lane == lanes_.end() ? o_.uses[0] : lane->rail;
  return format("NET/IB/{}", o_.rails[rail].port->index);
}

uint32_t IbOneSidedLink::most_bytes() const {
  uint32_t most = UINT32_MAX;
  for (const Lane& lane : lanes_) most = std::min(most, lane.write_bytes);
  return most;
}

// --- what happens ---

std::string IbOneSidedLink::work_text(const IbWorkId& id) const {
  switch (id.work) {
    case IbWork::data:
      return format("put of {} bytes", id.number);
    case IbWork::read:
      return format("get of {} bytes", id.number);
    case IbWork::flush:
      return "flush of puts";
    case IbWork::signal:
      return format("signal {}", id.number);
    default:
      return "receive of a signal";
  }
}

void IbOneSidedLink::take(size_t rail, const VerbsCompletion& completion) {
  const auto lane = std::find_if(lanes_.begin(), lanes_.end(), [&](const Lane& each) {
    return each.qp.number() == completion.qp && each.rail == rail;
  });
  // A dead link or queue pair still gives back completions.
  if (lane == lanes_.end() || error_) return;
  if (!lane->alive) return take_last(*lane, completion);
  const IbWorkId id = decode_work(completion.id);
  if (completion.status != kWorkSuccess) {
    lose([&](const Lane& each) { return &each == &*lane; },
         completion_error(*o_.rails[lane->rail].port, lane->name,
                          {.status = completion.status,
                           .vendor_error = completion.vendor_error,
                           .work = work_text(id)},
                          o_.settings));
    return;
  }
  if (Status taken = take_good(*lane, id, completion); !taken) fail(std::move(taken.error()));
}

Status IbOneSidedLink::take_good(Lane& lane, const IbWorkId& id,
                                 const VerbsCompletion& completion) {
  if (id.work == IbWork::receive) {
    if (completion.operation != kDoneRecvWithImmediate)
      return Error(ErrorCode::lost, format("{}: unknown kind of message ({})", lane.name.text(),
                                           completion.operation));
    ++lane.arrived;
    COLL_TRY(on_arrival(lane, __builtin_bswap32(completion.immediate)));
    if (++lane.receives_due < lane.receive_batch) return {};
    const uint32_t due = std::exchange(lane.receives_due, 0u);
    if (Status posted = lane.qp.post_receives(encode({.work = IbWork::receive}), due); !posted)
      lose([&](const Lane& each) { return &each == &lane; },
           std::move(posted.error()).within(lane.name.text()));
    return {};
  }
  lane.room += id.cost;
  if (!lane.posted.empty()) lane.posted.pop_front();  // they end in their order
  if (id.work == IbWork::signal) --signals_;
  if (id.work == IbWork::data) --writes_;
  if (id.work != IbWork::signal && id.stream < int(kSlots)) --pending_[size_t(id.stream)];
  if (owes_signals()) post_waiting();
  return {};
}

Status IbOneSidedLink::on_arrival(Lane& lane, uint32_t immediate) {
  const auto signal = int(immediate >> kTimesBits);
  const uint32_t times = immediate & kMostTimes;
  if (signal >= o_.signals || times == 0)
    return Error(ErrorCode::lost,
                 format("{}: invalid signal {} ({} times)", lane.name.text(), signal, times));
  o_.on_signal(rank(), signal, times);
  return {};
}

void IbOneSidedLink::look_at_ports(bool& down) {
  for (const Lane& lane : lanes_) {
    if (error_) return;
    if (!lane.alive) continue;
    const IbOneSidedRail& rail = o_.rails[lane.rail];
    std::optional<Error> trouble = port_trouble(*rail.port, lane.name, o_.settings, down);
    for (const IbCompletions* queue : {&rail.asked, &rail.arrivals})
      if (!trouble && rail.port->device->failed(queue->get()))
        trouble = ib_qp_event_error(lane.name, kEventCqError);
    if (trouble) rail_gone(lane.rail, *trouble);
  }
}

bool IbOneSidedLink::rail_gone(size_t rail, const Error& why) {
  const auto on_rail = [rail](const Lane& lane) { return lane.alive && lane.rail == rail; };
  if (error_ || std::none_of(lanes_.begin(), lanes_.end(), on_rail)) return false;
  lose(on_rail, Error(why).blame(o_.spec.self.rank));
  return true;
}

// The error stays. The peer is told, so that it says the cause and not that this end is gone.
void IbOneSidedLink::fail(Error why) {
  if (error_) return;
  if (left()) why = Error(ErrorCode::lost, format("{} has closed its windows", name_));
  if (why.rank < 0) why.rank = o_.spec.peer.rank;
  error_ = std::move(why);
  // Nothing of it may touch callers' memory any more. A queue pair that cannot even be retired
  // is the adapter's end, which is an error already.
  for (Lane& lane : lanes_) (void)lane.qp.retire();
  pending_ = {};
  owed_.clear();
  again_.clear();
  for (Lane& lane : lanes_) lane.posted.clear();
  writes_ = signals_ = 0;
  tell_failure();
}

}  // namespace collctl::transport
