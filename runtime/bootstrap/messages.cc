// Point-to-point messages, what is node-local on top of them, and descriptors.
#include <algorithm>

#include "base/check.h"
#include "base/log.h"
#include "runtime/bootstrap/state.h"

namespace collctl::runtime {

using namespace boot;

namespace {

// Messages nobody has asked for yet. Above this only the awaited sender is read.
constexpr uint64_t kMaxQueuedBytes = uint64_t(256) << 20;
constexpr uint64_t kMaxQueuedMessages = 1 << 16;
// Tags of the bootstrap's own use of messages; users' tags have 32 bits.
constexpr uint64_t kLocalTag = uint64_t(1) << 63;

}  // namespace

bool Bootstrap::State::may_read(const DataLink& link, int awaited_sender) const {
  return link.peer() == awaited_sender ||
         (queued_bytes < kMaxQueuedBytes && queued_messages < kMaxQueuedMessages);
}

Status Bootstrap::State::receive_messages(int awaited_sender) {
  for (auto& [peer, link] : incoming) {
    while (link->open() && may_read(*link, awaited_sender)) {
      // A sender that ended is no failure by itself: recv() says so when it waits for more.
      if (!link->progress() || !link->received()) break;
      Message message = link->take();
      link->expect();
      queued_bytes += message.body.size();
      ++queued_messages;
      queue[{peer, message.tag}].push_back(std::move(message.body));
    }
    if (queued_bytes > 4 * kMaxQueuedBytes || queued_messages > 4 * kMaxQueuedMessages)
      return Error(ErrorCode::defect,
                   format("{} sent {} messages ({} bytes) that rank {} did not ask for", name(peer),
                          queued_messages, queued_bytes, rank))
          .blame(peer);
  }
  return {};
}

Result<DataLink*> Bootstrap::State::link_to(int peer, Deadline deadline, const std::string& what) {
  std::unique_ptr<DataLink>& slot = outgoing[peer];
  if (slot && slot->open()) return slot.get();
  const Bytes greeting = PeerGreeting{Purpose::message, rank, peer}.encode();
  auto started = base::AuthConnector::start(members[size_t(peer)].address, secret, greeting);
  if (!started) return lost(peer, what, started.error());
  base::AuthConnector& connector = **started;
  while (true) {
    const Result<bool> done = connector.progress();
    if (!done) return lost(peer, what, done.error());
    if (*done) break;
    COLL_TRY_IN(news(), what);
    COLL_TRY_IN(receive_messages(-1), what);
    pollfd fds[] = {{connector.fd(), connector.events(), 0}, {service->wake_fd(), POLLIN, 0}};
    COLL_ASSIGN(const int ready, base::poll_fds(fds, deadline));
    if (ready == 0) return late({}, what + ": connect to " + name(peer), peer);
  }
  slot = std::make_unique<DataLink>(connector.take(), peer, kMaxBlob);
  return slot.get();
}

Status Bootstrap::State::send(int peer, uint64_t tag, ByteView data, Deadline deadline,
                              const std::string& what) {
  if (peer == rank) {
    queued_bytes += data.size();
    ++queued_messages;
    queue[{peer, tag}].emplace_back(data.begin(), data.end());
    return {};
  }
  COLL_ASSIGN(DataLink* const link, link_to(peer, deadline, what));
  link->post(tag, data);
  Status sent = drive({link}, deadline, what, [link] { return !link->sending(); });
  if (!sent) link->close();  // a frame cut short: the next send starts a new connection
  return sent;
}

Result<Bytes> Bootstrap::State::recv(int peer, uint64_t tag, Deadline deadline,
                                     const std::string& what) {
  bool gone = false;
  const auto key = std::pair(peer, tag);
  COLL_TRY(drive(
      {}, deadline, what,
      [&] {
        if (queue.count(key) != 0) return true;
        const auto link = incoming.find(peer);
        gone = link != incoming.end() && !link->second->open();
        return gone;
      },
      peer));
  if (gone) return lost(peer, what, Error(ErrorCode::lost, "its connection to this rank ended"));
  const auto found = queue.find(key);
  Bytes message = std::move(found->second.front());
  found->second.pop_front();
  if (found->second.empty()) queue.erase(found);
  queued_bytes -= message.size();
  --queued_messages;
  return message;
}

// Gathers up and sends down a tree over the members' indices; messages carry whole sets.
Status Bootstrap::State::local_gather(ByteView mine, Deadline deadline, const std::string& what,
                                      const Deliver& deliver) {
  const auto self = std::lower_bound(local.begin(), local.end(), rank);
  COLL_CHECK_NOTE(self != local.end() && *self == rank, "set_local_ranks comes first");
  if (broken) return *broken;
  const int count = int(local.size()), index = int(self - local.begin());
  const uint64_t tag = kLocalTag | uint64_t(++local_sequence) << 1;
  ByteWriter w;
  if (deliver) w.put(uint32_t(rank)).put_bytes(mine);
  Bytes all = w.take();
  for (const int child : tree_children(index, 1, count)) {
    COLL_ASSIGN(const Bytes part, recv(local[size_t(child)], tag, deadline, what));
    all.insert(all.end(), part.begin(), part.end());
  }
  if (const int parent_index = tree_parent(index, 1, count); parent_index >= 0) {
    const int up = local[size_t(parent_index)];
    COLL_TRY(send(up, tag, all, deadline, what));
    COLL_ASSIGN(all, recv(up, tag | 1, deadline, what));
  }
  for (const int child : tree_children(index, 1, count))
    COLL_TRY(send(local[size_t(child)], tag | 1, all, deadline, what));
  if (!deliver) return {};
  ByteReader entries(all);
  for (int i = 0; i < count; ++i) {
    const auto of = int(entries.get<uint32_t>());
    const ByteView bytes = entries.get_bytes(kMaxBlob);
    if (!entries.ok() || !std::binary_search(local.begin(), local.end(), of))
      return Error(ErrorCode::defect, what + ": the gathered data is malformed");
    COLL_TRY(deliver(of, bytes));
  }
  return {};
}

void Bootstrap::set_local_ranks(std::vector<int> members) {
  COLL_CHECK(std::is_sorted(members.begin(), members.end()));
  COLL_CHECK(std::binary_search(members.begin(), members.end(), state_->rank));
  state_->local = std::move(members);
}

Status Bootstrap::send(int peer, uint32_t tag, ByteView data, Deadline deadline) {
  COLL_CHECK(peer >= 0 && peer < state_->size);
  const std::string what = "bootstrap: send to " + state_->name(peer);
  if (data.size() > kMaxBlob)
    return Error(ErrorCode::usage,
                 format("{}: {} bytes, the limit is {}", what, data.size(), kMaxBlob));
  return state_->send(peer, tag, data, deadline, what);
}

Result<Bytes> Bootstrap::recv(int peer, uint32_t tag, Deadline deadline) {
  COLL_CHECK(peer >= 0 && peer < state_->size);
  return state_->recv(peer, tag, deadline,
                      format("bootstrap: receive from {}", state_->name(peer)));
}

Status Bootstrap::send_fd(int peer, uint64_t tag, int fd, Deadline deadline) {
  COLL_CHECK(peer >= 0 && peer < state_->size);
  if (Status seen = state_->news(); !seen) return std::move(seen.error());
  Status sent =
      state_->door->send({peer, state_->members[size_t(peer)].fd_nonce}, tag, fd, deadline);
  if (sent) return {};
  Error e = std::move(sent.error());
  // A refused Unix connection is how a dead peer looks from here; the ring knows which it is.
  if (e.code == ErrorCode::lost) return state_->lost(peer, "bootstrap: send descriptor", e);
  return std::move(e.within("bootstrap: send descriptor"));
}

Result<Fd> Bootstrap::recv_fd(int peer, uint64_t tag, Deadline deadline) {
  COLL_CHECK(peer >= 0 && peer < state_->size);
  State& s = *state_;
  const std::string what = "bootstrap: receive descriptor from " + s.name(peer);
  std::vector<pollfd> fds;
  while (true) {
    COLL_TRY_IN(s.door->receive(), what);
    if (Fd fd = s.door->take(peer, tag)) return fd;
    COLL_TRY_IN(s.news(), what);
    fds.clear();
    if (s.service) fds.push_back({s.service->wake_fd(), POLLIN, 0});
    s.door->add_interest(fds);
    COLL_ASSIGN(const int ready, base::poll_fds(fds, deadline));
    if (ready == 0) return s.late({}, what, peer);
  }
}

}  // namespace collctl::runtime
