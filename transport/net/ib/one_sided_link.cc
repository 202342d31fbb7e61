#include "transport/net/ib/one_sided_link.h"

#include <algorithm>

#include "base/format.h"
#include "transport/edge.h"
#include "transport/net/ib/route.h"
#include "transport/net/ib/trouble.h"

namespace collctl::transport {

using namespace base::drivers;

namespace {

constexpr uint32_t kOneSidedBatch = 8;    // receives posted with one call
constexpr uint32_t kOneSidedInline = 64;  // bytes
constexpr int kMostReadsOut = 16;         // under way at once, of a queue pair
constexpr uint32_t kTimesBits = 24;       // in the immediate, above how many times
constexpr uint32_t kMostTimes = (1u << kTimesBits) - 1;
constexpr size_t kMostLinkBlob = 16384;

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
  // Signals come by the first queue pair alone.
  const uint32_t receives = lanes_.empty() ? std::min(kReceives, most) : 1;
  const IbQueueSizes sizes{
      .sends = std::min(kSends, most), .receives = receives, .inline_bytes = kOneSidedInline};
  Lane lane;
  COLL_ASSIGN(lane.qp,
              IbQueuePair::make(*rail.port, rail.asked, sizes,
                                kLocalWrite | kRemoteWrite | kRemoteRead, o_.settings, &rail.came));
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
  IbBlob blob;
  uint8_t reads = uint8_t(kMostReadsOut);
  for (const size_t use : o_.uses) {
    const IbPort& port = *o_.rails[use].port;
    blob.rails.push_back(rail_blob(port));
    reads = std::min(reads, reads_of(port.device->facts().max_reads_in));
  }
  for (const Lane& lane : lanes_)
    blob.lanes.push_back({.qp = lane.qp.number(), .rail = uint8_t(lane.own)});
  ByteWriter w;
  w.put(reads).put(uint8_t(o_.flush ? 1 : 0)).put_rest(encode(blob));
  return w.take();
}

Status IbOneSidedLink::connect(ByteView described, Deadline deadline) {
  ByteReader r(described);
  const auto peer_reads = r.get<uint8_t>();
  peer_flushes_ = r.get<uint8_t>() != 0;
  if (!r.ok() || described.size() > kMostLinkBlob || peer_reads == 0 || peer_reads > kMostReadsOut)
    return Error(ErrorCode::lost, format("{}: its ports cannot be read", name_));
  COLL_ASSIGN(const IbBlob theirs, decode_ib_blob(described.subspan(2)));
  peer_rails_ = theirs.rails.size();
  // The end that has fewer queue pairs decides.
  lanes_.resize(std::min(lanes_.size(), theirs.lanes.size()));
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
    path.reads_out = std::min(reads_of(port.device->facts().max_reads_out), peer_reads);
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
  return format("NET/IB/{}", o_.rails[o_.uses[0]].port->index);
}

uint32_t IbOneSidedLink::most_bytes() const {
  uint32_t most = UINT32_MAX;
  for (const Lane& lane : lanes_) most = std::min(most, lane.write_bytes);
  return most;
}

// --- what this rank asks for ---

Result<bool> IbOneSidedLink::post(Lane& lane, VerbsSendWork* first, uint32_t count) {
  if (error_) return *error_;
  if (Status posted = lane.qp.post_send(first); !posted) {
    fail(std::move(posted.error()).within(lane.name.text()));
    return *error_;
  }
  lane.room -= count;
  return true;
}

// One request where its announcement may come with the data, else the announcement behind it.
Result<bool> IbOneSidedLink::write(const IbRemoteWindow& window, const Move& move) {
  if (error_) return *error_;
  const bool inlined = move.memory == nullptr;
  // What nobody waits for goes where the signals go, and so do signals.
  Lane& lane = inlined || move.signal >= 0 ? lanes_[0] : lanes_[turn_++ % lanes_.size()];
  const bool apart = move.signal >= 0 && move.bytes > lane.large_bytes;
  const uint32_t count = apart ? 2 : 1;
  if (lane.room < count) return false;
  VerbsPiece piece{.address = reinterpret_cast<uintptr_t>(move.local),
                   .bytes = move.bytes,
                   .lkey = inlined ? 0 : move.memory->local_key(lane.rail)};
  VerbsSendWork chain[2] = {};
  chain[0].pieces = &piece;
  chain[0].piece_count = 1;
  chain[0].operation = move.signal >= 0 && !apart ? kOpWriteWithImmediate : kOpWrite;
  chain[0].flags = inlined ? kSendInline : 0;
  VerbsSendWork& last = chain[count - 1];
  if (apart) {
    chain[0].next = &last;
    last.operation = kOpWriteWithImmediate;
  }
  last.flags |= kSendSignaled;
  if (move.signal >= 0)
    last.immediate = __builtin_bswap32(uint32_t(move.signal) << kTimesBits | 1u);
  for (uint32_t i = 0; i < count; ++i) {
    chain[i].remote_address = window.address + move.offset;
    chain[i].remote_key = window.keys[lane.peer];
    chain[i].id = encode({.work = IbWork::data,
                          .cost = count,
                          .stream = inlined ? int(kSlots) : int(move.slot),
                          .number = move.bytes});
  }
  COLL_TRY(post(lane, chain, count));
  ++writes_;
  if (!inlined) ++pending_[move.slot];
  lane.unread_at = window.address + move.offset + move.bytes - 1;
  lane.unread_key = window.keys[lane.peer];
  return true;
}

Result<bool> IbOneSidedLink::read(const IbRemoteWindow& window, const Move& move) {
  if (error_) return *error_;
  Lane& lane = lanes_[turn_++ % lanes_.size()];
  if (lane.room == 0) return false;
  VerbsPiece piece{.address = reinterpret_cast<uintptr_t>(move.local),
                   .bytes = move.bytes,
                   .lkey = move.memory->local_key(lane.rail)};
  VerbsSendWork work{};
  work.pieces = &piece;
  work.piece_count = 1;
  work.operation = kOpRead;
  work.flags = kSendSignaled;
  work.remote_address = window.address + move.offset;
  work.remote_key = window.keys[lane.peer];
  work.id =
      encode({.work = IbWork::read, .cost = 1, .stream = int(move.slot), .number = move.bytes});
  COLL_TRY(post(lane, &work, 1));
  ++pending_[move.slot];
  return true;
}

bool IbOneSidedLink::any_pending() const {
  return std::any_of(pending_.begin(), pending_.end(), [](uint8_t n) { return n != 0; });
}

bool IbOneSidedLink::unread() const {
  return std::any_of(lanes_.begin(), lanes_.end(),
                     [](const Lane& lane) { return lane.unread_at != 0; });
}

Result<bool> IbOneSidedLink::read_back(uint8_t* local, const IbMemory& memory) {
  if (error_) return *error_;
  for (Lane& lane : lanes_) {
    if (lane.unread_at == 0) continue;
    if (lane.room == 0) return false;
    VerbsPiece piece{.address = reinterpret_cast<uintptr_t>(local),
                     .bytes = 1,
                     .lkey = memory.local_key(lane.rail)};
    VerbsSendWork work{};
    work.pieces = &piece;
    work.piece_count = 1;
    work.operation = kOpRead;
    work.flags = kSendSignaled;
    work.remote_address = lane.unread_at;
    work.remote_key = lane.unread_key;
    work.id = encode({.work = IbWork::flush, .cost = 1, .stream = 0, .number = 1});
    COLL_TRY(post(lane, &work, 1));
    lane.unread_at = 0;
    ++pending_[0];
  }
  return true;
}

Status IbOneSidedLink::signal(int signal) {
  if (error_) return *error_;
  ++owed_[signal];
  post_owed();
  if (error_) return *error_;
  return {};
}

bool IbOneSidedLink::owes_signals() const {
  return std::any_of(owed_.begin(), owed_.end(), [](const auto& each) { return each.second != 0; });
}

void IbOneSidedLink::post_owed() {
  Lane& lane = lanes_[0];
  for (auto& [signal, times] : owed_) {
    while (times != 0 && lane.room != 0 && !error_) {
      const auto now = uint32_t(std::min<uint64_t>(times, kMostTimes));
      VerbsSendWork work{};
      work.operation = kOpWriteWithImmediate;
      work.flags = kSendSignaled;
      work.immediate = __builtin_bswap32(uint32_t(signal) << kTimesBits | now);
      work.id =
          encode({.work = IbWork::signal, .cost = 1, .stream = 0, .number = uint64_t(signal)});
      if (!post(lane, &work, 1)) return;
      times -= now;
      ++signals_;
    }
  }
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
  if (lane == lanes_.end() || error_) return;  // what a dead link gives back
  const IbWorkId id = decode_work(completion.id);
  if (completion.status != kWorkSuccess) {
    fail(completion_error(*o_.rails[lane->rail].port, lane->name,
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
      return Error(ErrorCode::lost, format("{}: a message of an unknown kind ({})",
                                           lane.name.text(), completion.operation));
    if (++lane.receives_due >= lane.receive_batch) {
      COLL_TRY_IN(lane.qp.post_receives(encode({.work = IbWork::receive}), lane.receives_due),
                  lane.name.text());
      lane.receives_due = 0;
    }
    return came(lane, __builtin_bswap32(completion.immediate));
  }
  lane.room += id.cost;
  if (id.work == IbWork::signal) --signals_;
  if (id.work == IbWork::data) --writes_;
  if (id.work != IbWork::signal && id.stream < int(kSlots)) --pending_[size_t(id.stream)];
  if (owes_signals()) post_owed();
  return {};
}

Status IbOneSidedLink::came(Lane& lane, uint32_t immediate) {
  const auto signal = int(immediate >> kTimesBits);
  const uint32_t times = immediate & kMostTimes;
  if (signal >= o_.signals || times == 0)
    return Error(ErrorCode::lost, format("{}: signal {} came {} times, which is none",
                                         lane.name.text(), signal, times));
  o_.on_signal(rank(), signal, times);
  return {};
}

void IbOneSidedLink::look_at_ports(bool& down) {
  for (const Lane& lane : lanes_) {
    if (error_) return;
    const IbOneSidedRail& rail = o_.rails[lane.rail];
    std::optional<Error> trouble = port_trouble(*rail.port, lane.name, o_.settings, down);
    for (const IbCompletions* queue : {&rail.asked, &rail.came})
      if (!trouble && rail.port->device->failed(queue->get()))
        trouble = ib_qp_event_error(lane.name, kEventCqError);
    if (trouble) fail(std::move(*trouble).blame(o_.spec.self.rank));
  }
}

// The error stays. The peer is told, so that it says the cause and not that this end is gone.
void IbOneSidedLink::fail(Error why) {
  if (error_) return;
  if (left()) why = Error(ErrorCode::lost, format("{} has closed its windows", name_));
  if (why.rank < 0) why.rank = o_.spec.peer.rank;
  error_ = std::move(why);
  // Nothing of it may touch memory of callers any more. A queue pair that cannot even be given up
  // is the adapter's end, which is an error already.
  for (Lane& lane : lanes_) (void)lane.qp.give_up();
  pending_ = {};
  owed_.clear();
  writes_ = signals_ = 0;
  tell_failure();
}

}  // namespace collctl::transport
