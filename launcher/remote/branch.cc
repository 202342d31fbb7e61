#include "launcher/remote/branch.h"

#include "base/format.h"

namespace collctl::launcher {
namespace {

// Towards one agent; one that takes no more for so long would be lost soon by its silence.
constexpr size_t kMostBelow = 64 << 20;

Bytes with_host(uint32_t host, ByteView rest) {
  ByteWriter w;
  w.put(host).put_rest(rest);
  return w.take();
}

}  // namespace

Branch::Branch(BranchOrder order)
    : hosts_(order.hosts.size()), told_(hosts_, HostPhase::waiting), told_behind_(hosts_) {
  order.options.in_agent = true;
  auto pool = HostPool::make(order.hosts, order.options);
  if (pool)
    pool_ = std::move(*pool);
  else
    error_ = std::move(pool.error());
}

Deadline Branch::add_interest(std::vector<pollfd>& fds) {
  return pool_ ? pool_->add_interest(fds) : Deadline::after_seconds(3600);
}

void Branch::progress() {
  if (pool_) pool_->progress();
}

// False: there is no more room.
bool Branch::report_host(uint32_t host, const Send& send, const std::function<bool()>& full) {
  HostLink& link = pool_->host(int(host));
  HostPhase& told = told_[host];
  const HostPhase phase = link.phase();
  if (told < HostPhase::up && link.times().up >= 0) {
    const Bytes hello = encoded(link.hello());
    send(AgentFrame::above,
         ByteWriter().put(host).put(uint16_t(AgentFrame::hello)).put_rest(hello).bytes());
    told = HostPhase::up;
  }
  while (!full()) {
    const auto frame = link.take_frame();
    if (!frame) {
      if (const std::string talk = link.take_talk(); !talk.empty())
        send(AgentFrame::talk, with_host(host, base::bytes_of(talk)));
      const bool waits = phase == HostPhase::waiting;
      Host behind = waits ? pool_->carrier_of(int(host)) : Host();
      if (told == phase && (!waits || told_behind_[host] == behind)) return true;
      told_behind_[host] = behind;
      BranchPhase word{phase, link.carrier() != nullptr, link.client(), {}, std::move(behind)};
      if (phase == HostPhase::failed) {
        word.error = *link.error();
        word.error->message = link.cause();
        word.error->contexts.clear();
        // Without a host: it is this one's, whose name the other side of the branch knows.
        if (link.times().up >= 0 && pool_->absence_s() > 0) word.error = pool_->absence_error();
      }
      send(AgentFrame::phase, with_host(host, encoded(word)));
      told = phase;
      return true;
    }
    send(AgentFrame::above,
         ByteWriter().put(host).put(frame->type).put_rest(frame->payload).bytes());
  }
  return false;
}

void Branch::report(const Send& send, const std::function<bool()>& full) {
  for (uint32_t host = 0; pool_ && host < hosts_; ++host)
    if (!report_host(host, send, full)) return;
  for (uint32_t host = 0; !pool_ && host < hosts_; ++host) {
    if (told_[host] == HostPhase::failed) continue;
    send(AgentFrame::phase,
         with_host(host, encoded(BranchPhase{HostPhase::failed, false, "", error_})));
    told_[host] = HostPhase::failed;
  }
}

bool Branch::handle(const RawFrame& frame) {
  ByteReader r(frame.payload);
  const auto host = r.get<uint32_t>();
  if (!r.ok() || host >= hosts_) return false;
  if (!pool_) return true;
  HostLink& link = pool_->host(int(host));
  if (AgentFrame(frame.type) == AgentFrame::cut) {
    link.fail(Error(ErrorCode::lost, "it was let go"));
    told_[host] = HostPhase::failed;
    return true;
  }
  const auto type = r.get<uint16_t>();
  if (!r.ok()) return false;
  if (AgentFrame(type) == AgentFrame::leave) {
    link.leave();
    return true;
  }
  link.send(AgentFrame(type), ByteView(frame.payload).subspan(sizeof host + sizeof type));
  if (link.pending() > kMostBelow)
    link.fail(Error(ErrorCode::lost,
                    format("it takes no data: {} MiB wait for it", link.pending() >> 20)));
  return true;
}

void Branch::leave(Deadline deadline) {
  if (pool_) pool_->leave(deadline);
  abandon();  // who still stays has had its time
}

void Branch::abandon() {
  if (pool_) pool_->abandon();
}

}  // namespace collctl::launcher
