#include "runtime/one_sided/network.h"

#include <sys/socket.h>

#include <algorithm>

#include "base/bell.h"
#include "base/format.h"
#include "base/wait.h"

namespace collctl::runtime {
namespace {

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

// Nothing of the window is in flight when all ranks had a barrier before; what still is, is cut
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
  // Bytes that fit go out at once, without the other thread; it sends the rest.
  if (connection.out.size() == 1) {
    if (Status sent = send(connection); !sent) {
      end(connection, sent.error());
      return *connection.broken;
    }
  }
  if (!connection.out.empty()) base::ring_bell(bell_.get());
  return {};
}

// A caller that stops waiting ends the connection, because the peer's answer would go into memory
// that is not the caller's any more.
Status OneSidedNetwork::wait_for(std::unique_lock<std::mutex>& lock, Connection& connection,
                                 uint64_t ticket, const char* what, const WaitLimit& limit) {
  while (!wanted_[ticket].done && !connection.broken) {
    base::wait_for(changed_, lock, limit.deadline.earlier(Deadline::after_ms(kOneSidedLookMs)),
                   [&] { return wanted_[ticket].done || connection.broken.has_value(); });
    if (wanted_[ticket].done || connection.broken) break;
    // It has read all that it will, and what it says behind its goodbye is not read here.
    if (connection.leaving && connection.out.empty()) end(connection, left_error(connection));
    if (limit.deadline.passed())
      end(connection, Error(ErrorCode::deadline, format("{} did not complete in time: waits for {}",
                                                        what, connection.name)));
    lock.unlock();
    const Status broken = limit.alive();
    lock.lock();
    if (!broken && !connection.broken) end(connection, broken.error());
  }
  const bool done = wanted_[ticket].done;
  wanted_.erase(ticket);
  if (!done) return *connection.broken;
  return {};
}

Status OneSidedNetwork::put(int peer, const Range& to, const void* data, const WaitLimit& limit) {
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
  return wait_for(lock, *connection, ticket, "a put", limit);
}

Status OneSidedNetwork::get(int peer, const Range& from, void* data, const WaitLimit& limit) {
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
  return wait_for(lock, *connection, ticket, "a get", limit);
}

Status OneSidedNetwork::signal(int peer, int signal) {
  const std::lock_guard lock(mutex_);
  COLL_ASSIGN(Connection* const connection, open_connection(peer));
  if (connection->out.size() >= kMostQueued)
    return Error(ErrorCode::unavailable, format("{} does not accept signals: {} are waiting",
                                                connection->name, connection->out.size()))
        .blame(peer);
  return post(*connection, {.head = {.kind = Kind::signal, .signal = uint32_t(signal)}});
}

Status OneSidedNetwork::fence(int peer, const WaitLimit& limit) {
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
  COLL_TRY(wait_for(lock, *connection, ticket, "a fence", limit));
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

}  // namespace collctl::runtime
