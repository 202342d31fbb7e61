#include "runtime/bootstrap/messages.h"

#include <algorithm>

#include "base/check.h"
#include "base/peer_closed.h"

namespace collctl::runtime::boot {
namespace {

// Tags of the bootstrap's own use of messages; users' tags have 32 bits.
constexpr uint64_t kLocalTag = uint64_t(1) << 63;

}  // namespace

Result<DataLink*> Messages::link_to(int peer, Deadline deadline, const std::string& what) {
  std::unique_ptr<DataLink>& slot = outgoing_[peer];
  if (slot && slot->open()) return slot.get();
  const Bytes greeting = encoded(PeerGreeting{Purpose::message, roster_.rank, peer});
  auto started =
      base::AuthConnector::start(roster_.members[size_t(peer)].address, secret_, greeting);
  const Roster::Member& at = roster_.members[size_t(peer)];
  const auto unreachable = [&](const Error& cause) {
    return std::move(waiting_.unreachable({peer, at.address, at.host}, cause).within(what));
  };
  if (!started && base::never_answered(started.error())) return unreachable(started.error());
  if (!started) return waiting_.lost(peer, what, started.error());
  base::AuthConnector& connector = **started;
  const Deadline answered = base::connect_deadline(deadline);
  while (true) {
    const Result<bool> done = connector.progress();
    if (!done && base::never_answered(done.error())) return unreachable(done.error());
    if (!done) return waiting_.lost(peer, what, done.error());
    if (*done) break;
    COLL_TRY_IN(waiting_.news(), what);
    COLL_TRY_IN(mailbox_.receive(-1), what);
    std::vector<pollfd> fds{{connector.fd(), connector.events(), 0}};
    waiting_.add_interest(fds);
    const bool reached = connector.connected();
    COLL_ASSIGN(const int ready, base::poll_fds(fds, reached ? deadline : answered));
    if (ready == 0 && !reached) return unreachable(base::no_connection(at.address.text()));
    if (ready == 0) return waiting_.late({}, what + ": connect to " + roster_.name(peer), peer);
  }
  slot =
      std::make_unique<DataLink>(SealedFd(connector.take(), connector.session()), peer, kMaxBlob);
  return slot.get();
}

Status Messages::send(int peer, uint64_t tag, ByteView data, Deadline deadline,
                      const std::string& what) {
  if (peer == roster_.rank) {
    mailbox_.put(peer, tag, Bytes(data.begin(), data.end()));
    return {};
  }
  COLL_ASSIGN(DataLink* const link, link_to(peer, deadline, what));
  link->post(tag, data);
  Status sent = waiting_.drive({link}, deadline, what, [link] { return !link->sending(); });
  if (!sent) link->close();  // a frame cut short: the next send starts a new connection
  return sent;
}

Result<Bytes> Messages::recv(int peer, uint64_t tag, Deadline deadline, const std::string& what) {
  const auto ends = [&] { return mailbox_.has(peer, tag) || mailbox_.gone(peer); };
  COLL_TRY(waiting_.drive({}, deadline, what, ends, peer));
  if (mailbox_.has(peer, tag)) return mailbox_.take(peer, tag);
  return waiting_.lost(peer, what, Error(ErrorCode::lost, "its connection to this rank ended"));
}

Status Messages::local_gather(ByteView mine, Deadline deadline, const std::string& what,
                              const Deliver& deliver) {
  const auto self = std::lower_bound(local_.begin(), local_.end(), roster_.rank);
  COLL_CHECK_NOTE(self != local_.end() && *self == roster_.rank, "set_local_ranks comes first");
  const int count = int(local_.size()), index = int(self - local_.begin());
  const uint64_t tag = kLocalTag | uint64_t(++local_sequence_) << 1;
  ByteWriter w;
  if (deliver) w.put(uint32_t(roster_.rank)).put_bytes(mine);
  Bytes all = w.take();
  for (const int child : tree_children(index, 1, count)) {
    COLL_ASSIGN(const Bytes part, recv(local_[size_t(child)], tag, deadline, what));
    all.insert(all.end(), part.begin(), part.end());
  }
  if (const int parent_index = tree_parent(index, 1, count); parent_index >= 0) {
    const int up = local_[size_t(parent_index)];
    COLL_TRY(send(up, tag, all, deadline, what));
    COLL_ASSIGN(all, recv(up, tag | 1, deadline, what));
  }
  for (const int child : tree_children(index, 1, count))
    COLL_TRY(send(local_[size_t(child)], tag | 1, all, deadline, what));
  if (!deliver) return {};
  ByteReader entries(all);
  for (int i = 0; i < count; ++i) {
    const auto of = int(entries.get<uint32_t>());
    const ByteView bytes = entries.get_bytes(kMaxBlob);
    if (!entries.ok() || !std::binary_search(local_.begin(), local_.end(), of))
      return Error(ErrorCode::defect, what + ": the gathered data is malformed");
    COLL_TRY(deliver(of, bytes));
  }
  return {};
}

}  // namespace collctl::runtime::boot
