// Failover: the protocol of both ends when some queue pairs of an IB connection die and others live
// (COLLCTL_IB_PORT_FAILOVER). Only the sender knows what was in flight, and only the receiver what
// has arrived, so they ask each other over the TCP connection:
//   sender   -> lanes_lost(round, lanes): these are dead
//   receiver: gives its ends of them up, so that nothing late can come by them any more, and takes
//             what has arrived until a receive returns unused: what its adapters have acknowledged
//             came before that, and counts as sent
//            -> moved_over(round, for each stream: what has arrived)
//   sender: what went by a dead lane and has not arrived is sent again by another; goes on
// A receiver that notices first says lanes_lost with round 0, and the sender begins. Entries of
// clear-to-send are written again by a lane that lives; those that the sender knows change nothing.
#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/format.h"
#include "base/log.h"
#include "transport/net/ib/receiver.h"
#include "transport/net/ib/sender.h"

namespace collctl::transport {

namespace {

uint64_t dead_lanes(const std::vector<IbLane>& lanes) {
  uint64_t dead = 0;
  for (size_t l = 0; l < lanes.size(); ++l)
    if (!lanes[l].alive) dead |= uint64_t(1) << l;
  return dead;
}

void push_lanes_lost(IbControl& control, uint32_t round, const std::vector<IbLane>& lanes) {
  ByteWriter w;
  w.put(round).put(dead_lanes(lanes));
  control.push(IbControlKind::lanes_lost, w.bytes());
}

void warn(const std::vector<IbLane>& lanes, const Error& why) {
  std::string left;
  for (const IbLane& lane : lanes)
    if (lane.alive && left.find(lane.name.local) == std::string::npos)
      left += (left.empty() ? "" : ", ") + lane.name.local;
  COLL_WARN("NET/IB : {} (the connection continues over {})", why.chain(), left);
}

Error nonsense(const std::string& peer) {
  return Error(ErrorCode::lost, format("{}: a malformed notice of a failed port", peer));
}

Error none_left(const std::string& peer) {
  return Error(ErrorCode::lost, format("{}: every port of the connection has failed", peer),
               "check cables, switch ports and links of both hosts (ibstat)");
}

}  // namespace

Status IbConnection::fail_lane(IbLane& lane) {
  lane.alive = false;
  lane.lost_ns = now_ns();
  ++draining_;
  COLL_TRY(lane.qp.retire());
  // So that there is one to return; no room for it means that there are others.
  (void)lane.qp.post_receives(encode({.work = IbWork::receive}), 1);
  return {};
}

Result<int> IbConnection::bury(uint64_t dead) {
  int died = 0;
  for (size_t l = 0; l < parts_.lanes.size(); ++l) {
    if ((dead >> l & 1) == 0 || !parts_.lanes[l].alive) continue;
    COLL_TRY(fail_lane(parts_.lanes[l]));
    ++died;
  }
  return died;
}

// Takes a late completion of a lane that has failed.
Status IbConnection::take_last(IbLane& lane, const base::drivers::VerbsCompletion& completion) {
  if (lane.drained || decode_work(completion.id).work != IbWork::receive) return {};
  if (completion.status != base::drivers::kWorkSuccess) {
    lane.drained = true;
    --draining_;
    return {};
  }
  // It may have been the last one: now there is room for one that returns.
  (void)lane.qp.post_receives(encode({.work = IbWork::receive}), 1);
  return on_arrival(lane, completion);
}

// Queues were found empty after `empty_ns`. The time alone says nothing: this end may have been
// away for long.
void IbConnection::drain_no_longer(int64_t empty_ns) {
  for (IbLane& lane : parts_.lanes) {
    if (lane.alive || lane.drained || empty_ns - lane.lost_ns < kMostDrainNs) continue;
    lane.drained = true;
    --draining_;
  }
}

Status IbSender::lanes_died(const Error& why) {
  look_at_lanes();
  warn(parts_.lanes, why);
  moving_round_ = ++last_round_;
  push_lanes_lost(control_, moving_round_, parts_.lanes);
  return {};
}

Status IbSender::heard(const IbMessage& message) {
  const std::string& peer = parts_.lanes[0].name.peer;
  ByteReader r(message.body);
  const auto round = r.get<uint32_t>();
  if (message.kind == IbControlKind::lanes_lost) {
    const auto dead = r.get<uint64_t>();
    if (!r.ok() || !parts_.failover) return nonsense(peer);
    COLL_ASSIGN(const int died, bury(dead));
    if (lanes_alive() == 0) return none_left(peer);
    return died == 0 ? Status()
                     : lanes_died(Error(ErrorCode::lost, format("{} lost a port", peer)));
  }
  if (message.kind != IbControlKind::moved_over || !parts_.failover) return nonsense(peer);
  const bool current = round == moving_round_ && moving_round_ != 0;
  if (current) again_.clear();  // what waits there is found again
  for (int s = 0; s < kernels::kProtocolCount; ++s) {
    Stream& stream = streams_[size_t(s)];
    const auto below = r.get<uint64_t>();
    const ByteView above = r.get_bytes(stream.limits.window / 8 + 1);
    if (!r.ok() || above.size() != (stream.limits.window + 7) / 8 || below > stream.posted)
      return nonsense(peer);
    if (!current) continue;
    for (uint64_t number = stream.tested; number < stream.posted; ++number) {
      Message& sent = stream.messages[number % stream.limits.window];
      if (sent.parts_left == 0 || sent.lane->alive) continue;
      const uint64_t bit = number - below;
      const bool arrived =
          number < below || (bit < stream.limits.window && (above[bit / 8] >> (bit % 8) & 1) != 0);
      sent.parts_left = arrived ? 0 : 1;
      if (!arrived) again_.emplace_back(s, number);
    }
  }
  if (current) moving_round_ = 0;
  return {};
}

Status IbSender::post_waiting(bool& moved) {
  while (!again_.empty() && moving_round_ == 0) {
    const auto [stream, number] = again_.front();
    COLL_ASSIGN(const bool started, start(stream, number));
    if (!started) break;
    again_.erase(again_.begin());
    moved = true;
  }
  return {};
}

Status IbReceiver::lanes_died(const Error& why) {
  warn(parts_.lanes, why);
  push_lanes_lost(control_, 0, parts_.lanes);
  // Entries that went by a dead lane may be lost: all that are still good are told again.
  for (Stream& stream : streams_) stream.told = std::min(stream.told, stream.tested);
  return {};
}

Status IbReceiver::heard(const IbMessage& message) {
  const std::string& peer = parts_.lanes[0].name.peer;
  ByteReader r(message.body);
  const auto round = r.get<uint32_t>();
  const auto dead = r.get<uint64_t>();
  if (message.kind != IbControlKind::lanes_lost || !r.ok() || !parts_.failover)
    return nonsense(peer);
  COLL_ASSIGN(const int died, bury(dead));
  if (lanes_alive() == 0) return none_left(peer);
  if (died != 0)
    for (Stream& stream : streams_) stream.told = std::min(stream.told, stream.tested);
  asked_round_ = round;
  return {};
}

void IbReceiver::answer_moving() {
  ByteWriter w;
  w.put(std::exchange(asked_round_, 0u));
  for (const Stream& stream : streams_) {
    Bytes above((stream.limits.window + 7) / 8);
    for (uint64_t number = stream.tested; number < stream.posted; ++number)
      if (stream.messages[number % stream.limits.window].complete)
        above[(number - stream.tested) / 8] |= uint8_t(1u << ((number - stream.tested) % 8));
    w.put(stream.tested).put_bytes(above);
  }
  control_.push(IbControlKind::moved_over, w.bytes());
}

}  // namespace collctl::transport
