#include "transport/net/ib/connection.h"

#include <algorithm>

#include "base/clock.h"
#include "base/format.h"
#include "base/log.h"
#include "transport/edge.h"
#include "transport/net/ib/trouble.h"

namespace collctl::transport {

using namespace base::drivers;

namespace {

constexpr int kBatch = 16;                // completions taken at once
constexpr int kMaxBatches = 8;            // in one look
constexpr uint32_t kControlRounds = 256;  // a look at the TCP connection takes a system call

constexpr int kWorkShift = 60, kCostShift = 48, kStreamShift = 40;

}  // namespace

uint64_t encode(const IbWorkId& id) {
  return uint64_t(id.work) << kWorkShift | uint64_t(id.cost & 0xfff) << kCostShift |
         uint64_t(uint8_t(id.stream)) << kStreamShift |
         (id.number & ((uint64_t(1) << kStreamShift) - 1));
}

IbWorkId decode_work(uint64_t id) {
  return {.work = IbWork(id >> kWorkShift),
          .cost = uint32_t(id >> kCostShift & 0xfff),
          .stream = int(id >> kStreamShift & 0xff),
          .number = id & ((uint64_t(1) << kStreamShift) - 1)};
}

IbConnection::IbConnection(IbParts parts, base::Fd control)
    : parts_(std::move(parts)),
      control_(std::move(control)),
      format_(parts_.end.streams),
      via_(format("NET/IB/{}", parts_.rails[0].port->index)),
      seen_events_(parts_.devices->events() - 1) {}

IbConnection::~IbConnection() {
  if (bell_fd_ >= 0) parts_.devices->remove_bell(bell_fd_);
  parts_.lanes.clear();  // before the memory that they reach is given back
}

void IbConnection::attach_bell(int fd) {
  if (bell_fd_ >= 0) parts_.devices->remove_bell(bell_fd_);
  bell_fd_ = fd;
  if (fd >= 0) parts_.devices->add_bell(fd);
}

namespace {

std::vector<IbPort*> ports_of(const std::vector<IbRail>& rails) {
  std::vector<IbPort*> ports;
  ports.reserve(rails.size());
  for (const IbRail& rail : rails) ports.push_back(rail.port);
  return ports;
}

}  // namespace

Result<uint64_t> IbConnection::register_memory(void* address, size_t bytes) {
  COLL_ASSIGN(IbMemory memory,
              IbMemory::host(ports_of(parts_.rails), address, bytes, data_order(parts_.settings)));
  memories_.push_back(std::move(memory));
  return uint64_t(memories_.size());
}

Result<uint64_t> IbConnection::register_device_memory(void* address, size_t bytes, bool in_order,
                                                      std::string& how) {
  const IbMemory::Order order = in_order ? IbMemory::Order::strict : data_order(parts_.settings);
  COLL_ASSIGN(IbMemory memory, IbMemory::device(ports_of(parts_.rails), *parts_.device, address,
                                                bytes, parts_.settings, order, how));
  memories_.push_back(std::move(memory));
  return uint64_t(memories_.size());
}

size_t IbConnection::lanes_alive() const {
  return size_t(std::count_if(parts_.lanes.begin(), parts_.lanes.end(),
                              [](const IbLane& lane) { return lane.alive; }));
}

Status IbConnection::post(IbLane& lane, VerbsSendWork* first, uint32_t count) {
  COLL_TRY_IN(lane.qp.post_send(first), lane.name.text());
  lane.room -= count;
  return {};
}

// --- what has happened ---

Status IbConnection::step(bool& moved) {
  const int64_t began = draining() ? now_ns() : 0;
  COLL_TRY(take_completions(moved));
  if (draining() && !moved) drain_no_longer(began);
  // Its end shows in poll as well; between sleeps it is enough to look now and then.
  if (control_.sending() || ++rounds_ % kControlRounds == 0) COLL_TRY(control_step(moved));
  // Only when an event has arrived, or while a port is down.
  if (parts_.devices->events() != seen_events_ || port_down_) COLL_TRY(look_at_ports());
  return post_waiting(moved);
}

// The error stays: whoever asks next gets it.
bool IbConnection::try_step() {
  bool moved = false;
  Status stepped = step(moved);
  // After the goodbye the peer may take its queues away.
  if (stepped || control_.peer_done()) return moved;
  error_ = std::move(stepped.error());
  // So that the peer says the cause, not that this end is gone. It may be gone itself.
  if (error_->code == ErrorCode::lost && !told_) {
    control_.push(IbControlKind::failed, encode_failure(*error_));
    (void)control_.pump();
  }
  return moved;
}

Error IbConnection::told_by_peer(const IbMessage& message) {
  told_ = true;
  return failure_of_peer(message.body, parts_.lanes[0].name.peer, parts_.end.spec.self.rank);
}

Result<bool> IbConnection::progress() {
  const bool moved = !error_ && try_step();
  if (error_) return *error_;
  return moved;
}

Status IbConnection::take_completions(bool& moved) {
  VerbsCompletion batch[kBatch];
  for (IbRail& rail : parts_.rails)
    for (int i = 0; i < kMaxBatches; ++i) {
      const int taken = rail.completions.collect(batch);
      if (taken < 0) return adapter_gone(rail, IbCompletions::gone());
      for (int k = 0; k < taken; ++k) COLL_TRY(take(rail, batch[k]));
      moved |= taken != 0;
      if (taken < kBatch) break;
    }
  return {};
}

Error IbConnection::adapter_gone(const IbRail& rail, Error error) const {
  for (const IbLane& lane : parts_.lanes)
    if (&parts_.rails[lane.rail] == &rail) {
      error.message = format("{}: {}", lane.name.text(), error.message);
      break;
    }
  return std::move(error).blame(parts_.end.spec.self.rank);
}

Status IbConnection::take(IbRail& rail, const VerbsCompletion& completion) {
  IbLane* lane = nullptr;
  for (IbLane& each : parts_.lanes) {
    if (each.qp.number() != completion.qp || &parts_.rails[each.rail] != &rail) continue;
    lane = &each;
    break;
  }
  const IbWorkId id = decode_work(completion.id);
  if (lane == nullptr) {
    if (id.work == IbWork::flush && completion.status == kWorkSuccess)
      return completed(parts_.lanes[0], id);
    return Error(ErrorCode::lost, format("{}: QP {}: {}", rail.port->text(), completion.qp,
                                         ib_status_name(completion.status)));
  }
  if (!lane->alive) return take_last(*lane, completion);
  if (completion.status != kWorkSuccess) return failed_work(*lane, completion);
  if (id.work == IbWork::receive) {
    if (++lane->receives_due >= lane->receive_batch) {
      COLL_TRY_IN(lane->qp.post_receives(encode({.work = IbWork::receive}), lane->receives_due),
                  lane->name.text());
      lane->receives_due = 0;
    }
    return on_arrival(*lane, completion);
  }
  lane->room += id.cost;
  return completed(*lane, id);
}

Status IbConnection::on_arrival(IbLane& lane, const VerbsCompletion& completion) {
  if (completion.operation != kDoneRecvWithImmediate)
    return Error(ErrorCode::lost, format("{}: unknown kind of message ({})", lane.name.text(),
                                         completion.operation));
  return announced(lane, __builtin_bswap32(completion.immediate));
}

Status IbConnection::failed_work(IbLane& lane, const VerbsCompletion& completion) {
  const IbWorkId id = decode_work(completion.id);
  Error why = completion_error(*parts_.rails[lane.rail].port, lane.name,
                               {.status = completion.status,
                                .vendor_error = completion.vendor_error,
                                .work = id.work == IbWork::receive ? "receive" : work_text(id)},
                               parts_.settings);
  return lose_lanes([&](const IbLane& each) { return &each == &lane; }, std::move(why));
}

Status IbConnection::control_step(bool& moved) {
  auto pumped = control_.pump();
  // The peer's last messages matter more than the broken connection.
  while (auto message = control_.next()) {
    if (message->kind == IbControlKind::failed) return told_by_peer(*message);
    COLL_TRY(heard(*message));
  }
  if (!pumped) {
    Error error = std::move(pumped.error());
    error.code = ErrorCode::lost;
    error.message = format("{}: {}", parts_.lanes[0].name.peer, error.message);
    return error;
  }
  moved |= *pumped;
  return {};
}

Status IbConnection::look_at_ports() {
  seen_events_ = parts_.devices->events();
  port_down_ = false;
  for (size_t r = 0; r < parts_.rails.size(); ++r) {
    const IbRail& rail = parts_.rails[r];
    const auto on_rail = [&](const IbLane& lane) { return lane.rail == r; };
    const auto lane = std::find_if(parts_.lanes.begin(), parts_.lanes.end(),
                                   [&](const IbLane& each) { return on_rail(each) && each.alive; });
    if (lane == parts_.lanes.end()) continue;
    if (rail.port->device->failed(rail.completions.get()))
      return ib_qp_event_error(lane->name, kEventCqError).blame(parts_.end.spec.self.rank);
    if (auto trouble = port_trouble(*rail.port, lane->name, parts_.settings, port_down_))
      COLL_TRY(lose_lanes(on_rail, std::move(*trouble).blame(parts_.end.spec.self.rank)));
  }
  return {};
}

Status IbConnection::lose_lanes(const std::function<bool(const IbLane&)>& these, Error why) {
  if (!parts_.failover) return why;
  for (IbLane& lane : parts_.lanes) {
    if (!lane.alive || !these(lane)) continue;
    COLL_TRY(fail_lane(lane));
  }
  if (lanes_alive() == 0) return why;
  return lanes_died(why);
}

// --- sleeping ---

void IbConnection::add_interest(std::vector<pollfd>& fds) {
  for (const IbRail& rail : parts_.rails) fds.push_back({rail.completions.fd(), POLLIN, 0});
  if (!control_.closed())
    fds.push_back({control_.fd(), short(POLLIN | (control_.sending() ? POLLOUT : 0)), 0});
}

bool IbConnection::arm() {
  if (error_ || draining()) return false;
  for (IbRail& rail : parts_.rails)
    if (Status armed = rail.completions.arm(); !armed) error_ = std::move(armed.error());
  // Completions from before the queue was armed raise no event.
  return !error_ && !try_step() && !error_;
}

void IbConnection::disarm() {
  for (IbRail& rail : parts_.rails) rail.completions.take_events();
  rounds_ = kControlRounds - 1;  // it may have been the TCP connection that was ready
}

}  // namespace collctl::transport
