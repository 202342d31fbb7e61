// The thread that serves the peers' puts and gets, and what it and callers send.
#include <poll.h>

#include <algorithm>

#include "base/bell.h"
#include "base/format.h"
#include "base/socket.h"
#include "runtime/one_sided/network.h"

namespace collctl::runtime {
namespace {

constexpr uint64_t kMostAtOnce = 4u << 20;   // bytes of one peer before the next one's turn
constexpr uint64_t kStagedBytes = 1u << 20;  // of GPU memory, at a time

}  // namespace

Result<uint8_t*> OneSidedNetwork::admitted(const Connection& connection) const {
  const Head& in = connection.in;
  const auto found = windows_.find(in.window);
  if (found == windows_.end())
    return Error(ErrorCode::lost, format("{} uses window {}, which this rank does not share",
                                         connection.name, in.window));
  const uint64_t all = found->second.bytes;
  if (in.bytes > all || in.offset > all - in.bytes)
    return Error(ErrorCode::lost, format("{} uses {} bytes at {} of window {}, which has {}",
                                         connection.name, in.bytes, in.offset, in.window, all));
  return found->second.address + in.offset;
}

Status OneSidedNetwork::begin(Connection& connection) {
  const Head& in = connection.in;
  switch (in.kind) {
    case Kind::put: {
      COLL_ASSIGN(connection.in_at, admitted(connection));
      connection.in_left = in.bytes;
      return {};
    }
    case Kind::get: {
      COLL_ASSIGN(const uint8_t* const at, admitted(connection));
      if (connection.out.size() >= kMostQueued)
        return Error(ErrorCode::lost, format("{} asks for more than it accepts", connection.name));
      connection.out.push_back(
          {.head = {.kind = Kind::data, .bytes = in.bytes, .ticket = in.ticket}, .body = at});
      return {};
    }
    case Kind::fence:
      if (connection.out.size() >= kMostQueued)
        return Error(ErrorCode::lost, format("{} asks for more than it accepts", connection.name));
      connection.out.push_back({.head = {.kind = Kind::fenced, .ticket = in.ticket}});
      return {};
    case Kind::data:
    case Kind::fenced: {
      const auto found = wanted_.find(in.ticket);
      if (found == wanted_.end() || found->second.from != &connection || found->second.done ||
          found->second.bytes != in.bytes ||
          (in.kind == Kind::data) != (found->second.data != nullptr))
        return Error(ErrorCode::lost,
                     format("{} answers a request that was not made", connection.name));
      connection.in_at = found->second.data;
      connection.in_left = in.bytes;
      return {};
    }
    case Kind::signal:
      if (in.signal > uint32_t(kBarrierSignal))
        return Error(ErrorCode::lost,
                     format("{} raises the invalid signal {}", connection.name, in.signal));
      return {};
    case Kind::goodbye:
      connection.leaving = true;
      return {};
  }
  return Error(ErrorCode::lost, format("{} sends an invalid operation", connection.name));
}

void OneSidedNetwork::finish(Connection& connection) {
  const Head& in = connection.in;
  if (in.kind == Kind::signal) board_.raise_here(connection.rank, int(in.signal));
  if (in.kind == Kind::data || in.kind == Kind::fenced) {
    wanted_[in.ticket].done = true;
    changed_.notify_all();
  }
}

Result<uint64_t> OneSidedNetwork::read_body(Connection& c) const {
  if (copy_ && c.in_stage.empty()) c.in_stage.resize(kStagedBytes);
  uint8_t* const to = copy_ ? c.in_stage.data() + c.in_staged : c.in_at;
  const uint64_t room = copy_ ? std::min(c.in_left, kStagedBytes - c.in_staged) : c.in_left;
  COLL_ASSIGN(const uint64_t got, base::read_some(c.fd.get(), to, room));
  c.in_left -= got;
  if (!copy_) {
    c.in_at += got;
    return got;
  }
  c.in_staged += got;
  if (c.in_staged == kStagedBytes || c.in_left == 0) {
    COLL_TRY(copy_(c.in_at, c.in_stage.data(), c.in_staged));
    c.in_at += c.in_staged;
    c.in_staged = 0;
  }
  return got;
}

// The next bytes of the first outgoing body, `sent` bytes of which have gone.
Result<iovec> OneSidedNetwork::body_from(Connection& c, uint64_t sent) const {
  const Outgoing& out = c.out.front();
  const uint64_t left = out.head.bytes - sent;
  if (!copy_) return iovec{const_cast<uint8_t*>(out.body) + sent, left};
  if (c.out_stage.empty()) c.out_stage.resize(kStagedBytes);
  if (sent == c.out_first + c.out_staged) {
    const uint64_t next = std::min(left, kStagedBytes);
    COLL_TRY(copy_(c.out_stage.data(), out.body + sent, next));
    c.out_first = sent;
    c.out_staged = next;
  }
  return iovec{c.out_stage.data() + (sent - c.out_first), c.out_first + c.out_staged - sent};
}

Status OneSidedNetwork::receive(Connection& connection) {
  for (uint64_t taken = 0; taken < kMostAtOnce;) {
    if (connection.in_moved < sizeof(Head)) {
      auto* const to = reinterpret_cast<uint8_t*>(&connection.in) + connection.in_moved;
      auto got = base::read_some(connection.fd.get(), to, sizeof(Head) - connection.in_moved);
      if (!got && connection.leaving && connection.in_moved == 0) return {};
      if (!got) return std::move(got.error()).within(format("puts of {}", connection.name));
      if (*got == 0) return {};
      connection.in_moved += *got;
      taken += *got;
      if (connection.in_moved < sizeof(Head)) continue;
      COLL_TRY(begin(connection));
    }
    while (connection.in_left > 0 && taken < kMostAtOnce) {
      auto got = read_body(connection);
      if (!got) return std::move(got.error()).within(format("puts of {}", connection.name));
      if (*got == 0) return {};
      taken += *got;
    }
    if (connection.in_left > 0) return {};
    finish(connection);
    connection.in_moved = 0;
  }
  return {};
}

Status OneSidedNetwork::send(Connection& connection) {
  while (!connection.out.empty()) {
    Outgoing& out = connection.out.front();
    const uint64_t body = out.body != nullptr ? out.head.bytes : 0;
    iovec pieces[2];
    size_t count = 0;
    if (out.moved < sizeof(Head))
      pieces[count++] = {reinterpret_cast<uint8_t*>(&out.head) + out.moved,
                         sizeof(Head) - out.moved};
    const uint64_t sent = out.moved > sizeof(Head) ? out.moved - sizeof(Head) : 0;
    if (body > sent) {
      COLL_ASSIGN(pieces[count++], body_from(connection, sent));
    }
    auto moved = base::write_some(connection.fd.get(), std::span<iovec>(pieces, count));
    if (!moved) return std::move(moved.error()).within(format("puts to {}", connection.name));
    if (*moved == 0) return {};
    out.moved += *moved;
    if (out.moved < sizeof(Head) + body) continue;
    if (out.done_ticket != 0) wanted_[out.done_ticket].done = true;
    connection.out.pop_front();
    connection.out_first = connection.out_staged = 0;
    changed_.notify_all();
  }
  return {};
}

void OneSidedNetwork::turn(Connection& connection, short events) {
  Status status;
  if ((events & (POLLIN | POLLHUP | POLLERR)) != 0) status = receive(connection);
  if (status && !connection.broken) status = send(connection);
  if (!status) end(connection, std::move(status.error()));
}

void OneSidedNetwork::serve() {
  std::vector<pollfd> fds;
  std::vector<Connection*> of;
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    fds.assign(1, {bell_.get(), POLLIN, 0});
    of.assign(1, nullptr);
    for (auto& [rank, connection] : connections_) {
      if (connection.broken || (connection.leaving && connection.out.empty())) continue;
      const short events =
          short(connection.leaving ? 0 : POLLIN) | short(connection.out.empty() ? 0 : POLLOUT);
      fds.push_back({connection.fd.get(), events, 0});
      of.push_back(&connection);
    }
    lock.unlock();
    // Ended by a peer or the bell; the hour only bounds one wait.
    const auto ready = base::poll_fds(fds, Deadline::after_seconds(3600));
    lock.lock();
    if (!ready) {
      for (auto& [rank, connection] : connections_) end(connection, ready.error());
      return;
    }
    if (fds[0].revents != 0) base::drain_bell(bell_.get());
    for (size_t i = 1; i < fds.size(); ++i)
      if (fds[i].revents != 0 && !of[i]->broken) turn(*of[i], fds[i].revents);
  }
}

}  // namespace collctl::runtime
