// One-sided links of which some queue pairs die and others live (COLLCTL_IB_PORT_FAILOVER).
//
// Both ends have requests in flight on a queue pair, and each asks the same of the other: what has
// arrived, and that nothing arrives late. So an end that loses a queue pair retires it, takes what
// has arrived by it until a receive returns unused (what the other end's adapter was acknowledged
// is before that), and says lanes_lost(it; how many immediates have arrived), once for each; who
// hears that does the same if it had not. Then both ends are gone, and the requests of this end are
// settled:
// - what an immediate announced that has arrived is over, and so are all writes before it on its
// queue
//   pair; the answer to a read may be lost all the same;
// - the rest is posted again by others in its order: writes and reads may be done twice, because
//   nobody was told of them yet.
// Until then nothing that has an order is posted: signals, and writes that nobody waits for.
#include <algorithm>

#include "base/clock.h"
#include "base/format.h"
#include "base/log.h"
#include "transport/net/ib/one_sided/link.h"

namespace collctl::transport {

bool IbOneSidedLink::unsettled() const {
  return failover_ && std::any_of(lanes_.begin(), lanes_.end(),
                                  [](const Lane& lane) { return !lane.alive && !lane.settled; });
}

bool IbOneSidedLink::moving() const {
  return failover_ && std::any_of(lanes_.begin(), lanes_.end(), [](const Lane& lane) {
           return !lane.alive && !(lane.drained && lane.settled);
         });
}

void IbOneSidedLink::look_after_moving(int64_t empty_ns) {
  // The time alone says nothing: this process may have been away for long.
  for (Lane& lane : lanes_)
    if (!lane.alive && !lane.drained && empty_ns - lane.lost_ns > kMostDrainNs) tell_drained(lane);
  unheard_ = false;
  look_at_control();
}

// Takes a late completion of a retired queue pair.
void IbOneSidedLink::take_last(Lane& lane, const base::drivers::VerbsCompletion& completion) {
  if (lane.drained || decode_work(completion.id).work != IbWork::receive) return;
  if (completion.status != base::drivers::kWorkSuccess) return tell_drained(lane);
  ++lane.arrived;
  if (Status taken = on_arrival(lane, __builtin_bswap32(completion.immediate)); !taken)
    fail(std::move(taken.error()));
}

void IbOneSidedLink::tell_drained(Lane& lane) {
  lane.drained = true;
  ByteWriter w;
  w.put(uint64_t(1) << (&lane - lanes_.data())).put(lane.arrived);
  control_->push(IbControlKind::lanes_lost, w.bytes());
  (void)control_->pump();
  unheard_ = true;
}

void IbOneSidedLink::lose(const std::function<bool(const Lane&)>& these, Error why) {
  if (error_) return;
  if (!failover_ || !control_ || left()) return fail(std::move(why));
  bool died = false;
  std::string rest;
  for (Lane& lane : lanes_) {
    if (lane.alive && these(lane)) {
      died = true;
      lane.alive = false;
      lane.lost_ns = now_ns();
      if (!lane.qp.retire()) lane.lost_ns -= kMostDrainNs;  // its adapter is gone
      // So that there is one to return; no room for it means that there are others.
      (void)lane.qp.post_receives(encode({.work = IbWork::receive}), 1);
    }
    if (lane.alive && rest.find(lane.name.local) == std::string::npos)
      rest += (rest.empty() ? "" : ", ") + lane.name.local;
  }
  if (!died) return;
  if (rest.empty()) return fail(std::move(why));
  COLL_WARN("NET/IB : {} (puts and gets with {} continue over {})", why.chain(), name_, rest);
}

Status IbOneSidedLink::hear_lanes_lost(const IbMessage& message) {
  ByteReader r(message.body);
  const auto dead = r.get<uint64_t>();
  std::vector<std::pair<Lane*, uint64_t>> settled;
  for (size_t l = 0; l < 64 && r.ok(); ++l) {
    if ((dead >> l & 1) == 0) continue;
    const auto arrived = r.get<uint64_t>();
    if (l >= lanes_.size() || lanes_[l].settled || arrived > lanes_[l].announced)
      r.fail();
    else
      settled.emplace_back(&lanes_[l], arrived);
  }
  if (!failover_ || settled.empty() || !r.ok() || !r.at_end())
    return Error(ErrorCode::lost, format("{}: a malformed notice of a failed port", name_));
  lose(
      [&](const Lane& lane) {
        return std::any_of(settled.begin(), settled.end(),
                           [&](const auto& each) { return each.first == &lane; });
      },
      Error(ErrorCode::lost, format("{} lost a port", name_),
            "check cables, switch ports and links of both hosts (ibstat)"));
  if (error_) return {};
  for (const auto& [lane, arrived] : settled) settle(*lane, arrived);
  post_waiting();
  return {};
}

void IbOneSidedLink::settle(Lane& lane, uint64_t arrived) {
  lane.settled = true;
  const auto announcing = uint64_t(std::count_if(lane.posted.begin(), lane.posted.end(),
                                                 [](const Request& r) { return r.announces; }));
  uint64_t number = lane.announced - announcing;  // of the next that announces
  size_t over = 0;
  for (size_t i = 0; i < lane.posted.size(); ++i)
    if (lane.posted[i].announces && number++ < arrived) over = i + 1;
  // A read behind writes has nothing to find out any more: see read_back().
  std::deque<Request> rest;
  for (size_t i = 0; i < lane.posted.size(); ++i) {
    const IbWork work = lane.posted[i].work;
    if ((i < over && work != IbWork::read) || work == IbWork::flush)
      finish(lane.posted[i]);
    else
      rest.push_back(lane.posted[i]);
  }
  // Requests that already wait come behind these.
  again_.insert(again_.begin(), rest.begin(), rest.end());
  lane.posted.clear();
}

void IbOneSidedLink::finish(const Request& request) {
  switch (request.work) {
    case IbWork::signal:
      --signals_;
      return;
    case IbWork::data:
      --writes_;
      if (request.move.memory != nullptr) --pending_[request.move.slot];
      return;
    case IbWork::flush:
      --pending_[0];
      return;
    default:
      --pending_[request.move.slot];
  }
}

Result<bool> IbOneSidedLink::post_again(const Request& request) {
  switch (request.work) {
    case IbWork::signal:
      return post_signal(request.move.signal, request.times);
    case IbWork::data:
      return post_write(request.target, request.move,
                        request.move.memory != nullptr ? request.move.local : request.data.data());
    default:
      return post_read(request.target, request.move);
  }
}

void IbOneSidedLink::post_waiting() {
  while (!again_.empty() && !unsettled() && !error_) {
    const auto posted = post_again(again_.front());
    if (!posted || !*posted) return;  // an error has emptied the list
    again_.pop_front();
  }
  if (!error_) post_owed();
}

}  // namespace collctl::transport
