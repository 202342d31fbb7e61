// The second half of a rank's start-up: it connects to its neighbours, and all exchange addresses.
#include <algorithm>

#include "base/format.h"
#include "base/peer_closed.h"
#include "runtime/bootstrap/join.h"
#include "runtime/request/settings.h"

namespace collctl::runtime {

using namespace boot;

namespace {

// One rank's facts that every other rank learns.
struct TableEntry {
  static constexpr const char* kRecord = "entry in the table of ranks";
  Roster::Member member;
  uint64_t task = 0;  // its hash
};
void fields(Record& io, TableEntry& entry) {
  io.field("address", entry.member.address);
  io.field("host", entry.member.host, kMaxHostName);
  io.field("nonce", entry.member.fd_socket.nonce);
  io.field("path", entry.member.fd_socket.path, kMaxFdSocketPath);
  io.field("task", entry.task);
  if (io.reading() && entry.member.address.length == 0) io.fail("address", "one of a socket");
}

}  // namespace

// One connection this rank opens. A peer that cannot be reached is tried a few times more: for a
// dead one that costs little, for one whose host is short of ports or memory it helps.
struct Bootstrap::State::Joining::Outgoing {
  const RankAt* to;
  Purpose purpose;
  std::unique_ptr<base::AuthConnector> connector;
  int tries_left = 4;
  SealedFd done;
  bool adopted = false;

  Result<bool> progress(const base::Secret& secret, int rank) {
    if (done || adopted) return true;
    if (!connector) {
      COLL_ASSIGN(connector,
                  base::AuthConnector::start(to->address, secret,
                                             encoded(PeerGreeting{purpose, rank, to->rank})));
    }
    Result<bool> is_through = connector->progress();
    if (!is_through && !connector->connected() && tries_left-- > 0) {
      connector.reset();
      base::sleep_until(Deadline::after_ms(20));
      return false;
    }
    if (is_through && *is_through) done = {connector->take(), connector->session()};
    return is_through;
  }
};

// The deadline passed: who has not answered this rank, else who has not called it.
Error Bootstrap::State::Joining::not_connected(const std::vector<Outgoing>& outgoing) const {
  std::vector<int> missing;
  for (const Outgoing& out : outgoing) {
    if (out.done || out.adopted) continue;
    if (!out.connector || !out.connector->connected())
      return s_.waiting.unreachable(*out.to, base::no_connection(out.to->address.text()));
    missing.push_back(out.to->rank);
  }
  if (!s_.waiting.service()->has_previous() || (ring() && !s_.data.ring_previous))
    missing.push_back(place_.previous.rank);
  for (const int child : tree_children(rank(), groups(), size()))
    if (!ring() && std::none_of(s_.data.children.begin(), s_.data.children.end(),
                                [&](const auto& link) { return link->peer() == child; }))
      missing.push_back(child);
  std::sort(missing.begin(), missing.end());
  missing.erase(std::unique(missing.begin(), missing.end()), missing.end());
  Error e(ErrorCode::deadline,
          format("{} is not connected with: {}", s_.roster.name(rank()),
                 rank_list(missing, s_.roster.hosts())),
          "those ranks are stopped, or a firewall separates their hosts");
  if (!missing.empty()) {
    e.rank = missing.front();
    e.host = s_.roster.host(e.rank);
  }
  return e;
}

Status Bootstrap::State::Joining::connect() {
  COLL_ASSIGN(auto started,
              Service::start({rank(), size(), groups(), std::move(peers_), std::move(line_),
                              std::move(reader_), root().root_address().text(), place_.next,
                              place_.previous}));
  s_.waiting.begin(std::move(started));
  Service& service = *s_.waiting.service();
  cancelling_.emplace(s_.options.cancel, [this, &service](const Error& why) {
    service.announce(start_aborted(why, rank(), s_.options.host));
  });
  const bool to_parent = !ring() && place_.parent.rank >= 0;
  std::vector<Outgoing> outgoing;
  outgoing.push_back({&place_.next, Purpose::control, nullptr, 4, {}, false});
  if (ring()) outgoing.push_back({&place_.next, Purpose::ring, nullptr, 4, {}, false});
  if (to_parent) outgoing.push_back({&place_.parent, Purpose::tree, nullptr, 4, {}, false});
  COLL_TRY(connect_all(service, outgoing));
  const uint64_t longest = uint64_t(size()) * (kMaxBlob + 8);
  const auto data_link = [&](const RankAt& peer) {
    return std::make_unique<DataLink>(std::move(outgoing[1].done), peer.rank, longest);
  };
  if (ring()) s_.data.ring_next = data_link(place_.next);
  if (to_parent) s_.data.parent = data_link(place_.parent);
  service.report_connected();
  return {};
}

// Until all `outgoing` are there, and all that others open to this rank.
Status Bootstrap::State::Joining::connect_all(Service& service, std::vector<Outgoing>& outgoing) {
  const std::string what = "bootstrap: connect";
  const size_t children_due = ring() ? 0 : tree_children(rank(), groups(), size()).size();
  const Deadline answered = base::connect_deadline(deadline());
  const auto reached = [&] {
    return std::all_of(outgoing.begin(), outgoing.end(), [](const Outgoing& out) {
      return out.done || out.adopted || (out.connector && out.connector->connected());
    });
  };
  std::vector<pollfd> fds;
  while (true) {
    COLL_TRY_IN(s_.waiting.news(), what);
    bool complete = service.has_previous() && s_.data.children.size() == children_due &&
                    (!ring() || s_.data.ring_previous != nullptr);
    fds.assign(1, {service.wake_fd(), POLLIN, 0});
    for (Outgoing& out : outgoing) {
      const Result<bool> done = out.progress(roots_[0].secret, rank());
      if (!done && base::never_answered(done.error()))
        return std::move(s_.waiting.unreachable(*out.to, done.error()).within(what));
      if (!done) return s_.waiting.lost(out.to->rank, what, done.error());
      complete &= *done;
      // At once: a notice must be able to reach the successor even if this start-up fails.
      if (out.done && out.purpose == Purpose::control) {
        service.adopt_next(std::move(out.done));
        out.adopted = true;
      }
      if (!*done && out.connector) fds.push_back({out.connector->fd(), out.connector->events(), 0});
    }
    if (complete) return {};
    const bool retrying = std::any_of(outgoing.begin(), outgoing.end(), [](const Outgoing& out) {
      return !out.done && !out.adopted && !out.connector;
    });
    const Deadline until = reached() ? deadline() : answered;
    COLL_ASSIGN(const int ready, base::poll_fds(fds, retrying ? Deadline::after_ms(0) : until));
    if (ready > 0 || retrying) continue;
    if (deadline().passed() || !reached()) return std::move(not_connected(outgoing).within(what));
  }
}

Status Bootstrap::State::Joining::exchange_table() {
  const Roster::Member& self = s_.roster.members[size_t(rank())];
  TableEntry mine{self, hash_text(s_.options.task)};
  mine.member.host.resize(std::min(self.host.size(), kMaxHostName));
  tasks_.resize(s_.roster.members.size());
  COLL_TRY(s_.gathering.gather(
      encoded(mine), deadline(), "bootstrap: exchange of addresses",
      [this](int of, ByteView bytes) -> Status {
        auto entry = decoded<TableEntry>(bytes);
        if (!entry)
          return Error(ErrorCode::defect, "malformed entry in the table of ranks").blame(of);
        s_.roster.members[size_t(of)] = std::move(entry->member);
        tasks_[size_t(of)] = entry->task;
        return {};
      }));
  // Everybody is connected now: the ring's control connections take over from the root.
  s_.waiting.service()->leave_root();
  return {};
}

}  // namespace collctl::runtime
