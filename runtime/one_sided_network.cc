#include "runtime/one_sided_network.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>

#include "base/bell.h"
#include "base/format.h"
#include "base/socket.h"
#include "base/wait.h"

namespace collctl::runtime {
namespace {

constexpr size_t kMostQueued = 4096;           // of answers and signals to one peer
constexpr uint64_t kMostAtOnce = 4u << 20;     // bytes of one peer before the next one's turn
constexpr uint64_t kStagedBytes = 1u << 20;    // of GPU memory, at a time
constexpr double kOneSidedGoodbyeSeconds = 2;  // for what is left when this end leaves
constexpr int64_t kOneSidedLookMs = 20;        // how late a waiting caller sees an abort

}  // namespace

Result<std::unique_ptr<OneSidedNetwork>> OneSidedNetwork::start(std::vector<NetworkPeer> peers,
                                                                SignalBoard& board, Copy copy) {
  std::unique_ptr<OneSidedNetwork> network(new OneSidedNetwork(board, std::move(copy)));
  COLL_ASSIGN(network->bell_, base::make_bell());
  for (NetworkPeer& peer : peers) {
    Connection& connection = network->connections_[peer.rank];
    connection.rank = peer.rank;
    connection.name = std::move(peer.name);
    connection.fd = std::move(peer.fd);
  }
  network->thread_ = std::thread([n = network.get()] { n->serve(); });
  return network;
}

OneSidedNetwork::~OneSidedNetwork() {
  {
    std::unique_lock lock(mutex_);
    for (auto& [rank, connection] : connections_)
      if (!connection.broken) connection.out.push_back({.head = {.kind = Kind::goodbye}});
    base::ring_bell(bell_.get());
    base::wait_for(changed_, lock, Deadline::after_seconds(kOneSidedGoodbyeSeconds), [&] {
      return std::all_of(connections_.begin(), connections_.end(), [](const auto& entry) {
        return entry.second.broken || entry.second.out.empty();
      });
    });
    stopping_ = true;
  }
  base::ring_bell(bell_.get());
  if (thread_.joinable()) thread_.join();
}

void OneSidedNetwork::admit(uint64_t number, uint8_t* address, uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  windows_[number] = {address, bytes};
}

// Nothing of the window is under way when all ranks have met before; what is all the same is cut
// off, because its memory may go now.
void OneSidedNetwork::dismiss(uint64_t number) {
  const std::lock_guard lock(mutex_);
  const auto found = windows_.find(number);
  if (found == windows_.end()) return;
  const auto inside = [&](const uint8_t* at) {
    return at >= found->second.address && at < found->second.address + found->second.bytes;
  };
  for (auto& [rank, connection] : connections_) {
    const bool sends = std::any_of(
        connection.out.begin(), connection.out.end(),
        [&](const auto& o) { return o.done_ticket == 0 && o.body != nullptr && inside(o.body); });
    const bool takes =
        connection.in_left > 0 && connection.in.kind == Kind::put && inside(connection.in_at);
    if (sends || takes)
      end(connection, Error(ErrorCode::lost, format("{} used window {} while it was withdrawn",
                                                    connection.name, number)));
  }
  windows_.erase(found);
}

Result<OneSidedNetwork::Connection*> OneSidedNetwork::open_connection(int peer) {
  const auto found = connections_.find(peer);
  if (found == connections_.end())
    return Error(ErrorCode::defect, format("rank {} has no connection for puts", peer));
  if (found->second.broken) return *found->second.broken;
  if (found->second.leaving) return left_error(found->second);
  return &found->second;
}

Error OneSidedNetwork::left_error(const Connection& connection) {
  return Error(ErrorCode::lost, format("{} has closed its windows", connection.name))
      .blame(connection.rank);
}

Status OneSidedNetwork::health(int peer) {
  const std::lock_guard lock(mutex_);
  if (!connections_.contains(peer)) return {};
  const auto open = open_connection(peer);
  return open ? Status() : Status(open.error());
}

Status OneSidedNetwork::failure_of(int rank) {
  const std::lock_guard lock(mutex_);
  for (const auto& [peer, connection] : connections_)
    if (connection.broken && connection.broken->rank == rank) return *connection.broken;
  return {};
}

Status OneSidedNetwork::post(Connection& connection, const Outgoing& what) {
  connection.out.push_back(what);
  // What fits goes out at once, without the other thread; the rest is the other thread's.
  if (connection.out.size() == 1) {
    if (Status sent = send(connection); !sent) {
      end(connection, sent.error());
      return *connection.broken;
    }
  }
  if (!connection.out.empty()) base::ring_bell(bell_.get());
  return {};
}

// A caller that gives up ends the connection, because the peer's answer would come into memory that
// is not the caller's any more.
Status OneSidedNetwork::wait_for(std::unique_lock<std::mutex>& lock, Connection& connection,
                                 uint64_t ticket, const char* what, const Patience& patience) {
  while (!wanted_[ticket].done && !connection.broken) {
    base::wait_for(changed_, lock, patience.deadline.earlier(Deadline::after_ms(kOneSidedLookMs)),
                   [&] { return wanted_[ticket].done || connection.broken.has_value(); });
    if (wanted_[ticket].done || connection.broken) break;
    // It has read all that it will, and what it says behind its goodbye is not read here.
    if (connection.leaving && connection.out.empty()) end(connection, left_error(connection));
    if (patience.deadline.passed())
      end(connection,
          Error(ErrorCode::deadline,
                format("{} did not end within its time: waits for {}", what, connection.name)));
    lock.unlock();
    const Status broken = patience.alive();
    lock.lock();
    if (!broken && !connection.broken) end(connection, broken.error());
  }
  const bool done = wanted_[ticket].done;
  wanted_.erase(ticket);
  if (!done) return *connection.broken;
  return {};
}

Status OneSidedNetwork::put(int peer, const Range& to, const void* data, const Patience& patience) {
  std::unique_lock lock(mutex_);
  COLL_ASSIGN(Connection* const connection, open_connection(peer));
  const uint64_t ticket = ++tickets_;
  wanted_[ticket] = {.from = connection};
  connection->unfenced = true;
  const Outgoing out{
      .head = {.kind = Kind::put, .window = to.window, .offset = to.offset, .bytes = to.bytes},
      .body = static_cast<const uint8_t*>(data),
      .done_ticket = ticket};
  if (Status posted = post(*connection, out); !posted) {
    wanted_.erase(ticket);
    return posted;
  }
  return wait_for(lock, *connection, ticket, "a put", patience);
}

Status OneSidedNetwork::get(int peer, const Range& from, void* data, const Patience& patience) {
  std::unique_lock lock(mutex_);
  COLL_ASSIGN(Connection* const connection, open_connection(peer));
  const uint64_t ticket = ++tickets_;
  wanted_[ticket] = {.from = connection, .data = static_cast<uint8_t*>(data), .bytes = from.bytes};
  const Outgoing out{.head = {.kind = Kind::get,
                              .window = from.window,
                              .offset = from.offset,
                              .bytes = from.bytes,
                              .ticket = ticket}};
  if (Status posted = post(*connection, out); !posted) {
    wanted_.erase(ticket);
    return posted;
  }
  return wait_for(lock, *connection, ticket, "a get", patience);
}

Status OneSidedNetwork::signal(int peer, int signal) {
  const std::lock_guard lock(mutex_);
  COLL_ASSIGN(Connection* const connection, open_connection(peer));
  if (connection->out.size() >= kMostQueued)
    return Error(ErrorCode::unavailable, format("{} does not take its signals: {} are waiting",
                                                connection->name, connection->out.size()))
        .blame(peer);
  return post(*connection, {.head = {.kind = Kind::signal, .signal = uint32_t(signal)}});
}

Status OneSidedNetwork::fence(int peer, const Patience& patience) {
  std::unique_lock lock(mutex_);
  COLL_ASSIGN(Connection* const connection, open_connection(peer));
  if (!connection->unfenced) return {};
  const uint64_t ticket = ++tickets_;
  wanted_[ticket] = {.from = connection};
  const Outgoing out{.head = {.kind = Kind::fence, .ticket = ticket}};
  if (Status posted = post(*connection, out); !posted) {
    wanted_.erase(ticket);
    return posted;
  }
  COLL_TRY(wait_for(lock, *connection, ticket, "a fence", patience));
  connection->unfenced = false;
  return {};
}

void OneSidedNetwork::end(Connection& connection, Error why) {
  if (connection.broken) return;
  if (why.rank < 0) why.rank = connection.rank;
  connection.broken = std::move(why);
  connection.out.clear();
  connection.in_left = connection.in_staged = connection.out_staged = 0;
  // The peer hears of it at once. The descriptor itself stays until the end: the thread may be
  // polling it.
  ::shutdown(connection.fd.get(), SHUT_RDWR);
  changed_.notify_all();
}

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
        return Error(ErrorCode::lost, format("{} asks for more than it takes", connection.name));
      connection.out.push_back(
          {.head = {.kind = Kind::data, .bytes = in.bytes, .ticket = in.ticket}, .body = at});
      return {};
    }
    case Kind::fence:
      if (connection.out.size() >= kMostQueued)
        return Error(ErrorCode::lost, format("{} asks for more than it takes", connection.name));
      connection.out.push_back({.head = {.kind = Kind::fenced, .ticket = in.ticket}});
      return {};
    case Kind::data:
    case Kind::fenced: {
      const auto found = wanted_.find(in.ticket);
      if (found == wanted_.end() || found->second.from != &connection || found->second.done ||
          found->second.bytes != in.bytes ||
          (in.kind == Kind::data) != (found->second.data != nullptr))
        return Error(ErrorCode::lost, format("{} answers what was not asked", connection.name));
      connection.in_at = found->second.data;
      connection.in_left = in.bytes;
      return {};
    }
    case Kind::signal:
      if (in.signal > uint32_t(kBarrierSignal))
        return Error(ErrorCode::lost,
                     format("{} raises signal {}, which is none", connection.name, in.signal));
      return {};
    case Kind::goodbye:
      connection.leaving = true;
      return {};
  }
  return Error(ErrorCode::lost, format("{} sends what is no operation", connection.name));
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

// What is sent next of the first outgoing body, `sent` bytes of which have gone.
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
