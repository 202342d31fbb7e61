// Start-up of a rank: listen, check in, wait for the place, connect, exchange addresses.
#include <algorithm>

#include "base/check.h"
#include "base/host_facts.h"
#include "base/log.h"
#include "runtime/bootstrap/state.h"
#include "runtime/request/settings.h"

namespace collctl::runtime {

using namespace boot;

namespace {

// Above this many ranks a root, check-ins are spread over time. Up to 1024 ranks it makes no
// measurable difference; beyond, it keeps the root's accept queue (often 4096) from overflowing,
// which would cost a second for each connection turned away.
constexpr int kPacedAbove = 128;
constexpr int64_t kPaceNs = 50'000;
constexpr int64_t kCancelLookMs = 50;  // between looks, where no descriptor is left to wake by
constexpr double kPartSeconds = 5;     // for goodbyes between ranks that cannot go on together

}  // namespace

struct Bootstrap::State::Joining {
  State& s;
  std::vector<UniqueId> roots;
  int group = 0;
  std::unique_ptr<base::AuthListener> peers, calls;
  Address own_address;  // where peers connect
  Fd line;
  FrameReader reader;
  Place place;
  std::optional<base::Cancel::Listener> cancelling;  // once there is a service

  const UniqueId& root() const { return roots[size_t(group)]; }
  Deadline deadline() const { return s.options.deadline; }

  Status check_options();
  Status listen();
  Status check_in();
  Status wait_for_place();
  Status cancelled() const;
  Result<bool> read_line();
  Result<bool> read_call(ByteView greeting);
  Result<bool> obey(const Frame& frame);
  Status connect();
  Error not_connected(std::vector<int> missing) const;
  Status exchange_table();
};

Status Bootstrap::State::Joining::check_options() {
  const Options& o = s.options;
  roots = o.roots.empty() ? std::vector<UniqueId>{o.id} : o.roots;
  if (o.size < 1 || o.size > kMaxRanks || o.rank < 0 || o.rank >= o.size)
    return Error(ErrorCode::usage, format("rank {} of {}: ranks go from 0 to the number of ranks "
                                          "- 1, at most {} ranks",
                                          o.rank, o.size, kMaxRanks));
  if (roots.size() > kMaxRoots || int(roots.size()) > o.size)
    return Error(ErrorCode::usage, format("{} bootstrap roots for {} ranks: at most one per "
                                          "rank, and {}",
                                          roots.size(), o.size, kMaxRoots));
  for (const UniqueId& id : roots)
    if (!base::equal_constant_time(id.secret.bytes, roots[0].secret.bytes))
      return Error(ErrorCode::usage, "the unique ids of several roots must share one secret");
  s.groups = int(roots.size());
  s.secret = roots[0].secret;
  s.job = roots[0].hash();
  s.members.resize(size_t(o.size));
  s.members[size_t(o.rank)].host = o.host;
  group = group_of(o.rank, s.groups, o.size);
  return {};
}

Status Bootstrap::State::Joining::listen() {
  const Interface& interface = s.options.interface;
  base::raise_open_file_limit();
  Address at = interface.address;
  at.set_port(0);
  COLL_ASSIGN(peers, base::AuthListener::listen(at, s.secret));
  own_address = peers->address();
  COLL_ASSIGN(calls, base::AuthListener::listen(at, s.secret));
  COLL_ASSIGN(s.door, FdDoor::open(s.job, s.rank, s.secret));
  Member& self = s.members[size_t(s.rank)];
  self.address = own_address;
  self.fd_nonce = s.door->nonce();
  COLL_INFO(init, "Bootstrap : Using [0]{}:{}<0>", interface.name, at.host_text());
  return {};
}

Status Bootstrap::State::Joining::check_in() {
  CheckIn c;
  c.rank = s.rank;
  c.size = s.size;
  c.root_index = group;
  for (const UniqueId& id : roots) c.roots.push_back(id.root_address());
  c.host = s.options.host;
  c.peers = own_address;
  c.calls = calls->address();
  const int first = group_begin(group, s.groups, s.size),
            ranks = group_begin(group + 1, s.groups, s.size) - first;
  if (ranks > kPacedAbove)
    base::sleep_until(Deadline::after_ns((s.rank - first) * kPaceNs).earlier(deadline()));
  c.remaining_ms = deadline().remaining_ns() / 1'000'000;
  const Address at = root().root_address();
  base::Cancel* const off = s.options.cancel.get();
  auto connected = base::auth_connect(at, root().secret, c.encode(), deadline(), {},
                                      off == nullptr ? nullptr : off->word());
  // Who lacks descriptors can still decline: with those that its start gives back.
  if (s.options.checks_in && (connected || connected.error().code != ErrorCode::unavailable))
    s.options.checks_in();
  if (connected) {
    line = std::move(*connected);
    COLL_INFO(bootstrap, "rank {} of {} has checked in at the root {}", s.rank, s.size, at.text());
    return {};
  }
  COLL_TRY(cancelled());
  Error e = std::move(connected.error());
  if (e.hint.empty())
    e.hint = format(
        "rank {} could not check in: the process of rank 0 must be running, and {} must "
        "be reachable from this host ({})",
        s.rank, at.text(), s.options.host);
  return std::move(e.within("bootstrap: check-in at the root"));
}

// True once this rank has its place.
Result<bool> Bootstrap::State::Joining::obey(const Frame& frame) {
  if (frame.type == FrameType::failure) return decode_error(frame.payload);
  if (frame.type == FrameType::call_you) {
    line.reset();
    return false;
  }
  if (frame.type != FrameType::place) return false;
  const auto p = Place::decode(frame.payload);
  if (!p) return Error(ErrorCode::defect, "the bootstrap root sent a malformed place");
  place = *p;
  for (const RankAt* at : {&place.next, &place.previous, &place.parent})
    if (at->rank >= 0 && at->rank < s.size) s.members[size_t(at->rank)].host = at->host;
  return true;
}

Result<bool> Bootstrap::State::Joining::read_line() {
  const Status state = reader.fill(line.get());
  while (auto frame = reader.next()) {
    COLL_ASSIGN(const bool placed, obey(*frame));
    if (placed) return true;
    if (!line) return false;
  }
  if (!state)
    return Error(ErrorCode::lost,
                 format("the bootstrap root at {} is gone: its process ended while ranks were "
                        "checking in",
                        root().root_address().text()),
                 "look at the output of rank 0");
  return false;
}

// The root hung up before (it had no descriptors left) and now brings the frame in its greeting.
Result<bool> Bootstrap::State::Joining::read_call(ByteView greeting) {
  const auto g = PeerGreeting::decode(greeting);
  if (!g || g->purpose != Purpose::call || g->to != s.rank) return false;
  ByteReader r(greeting.subspan(PeerGreeting{}.encode().size()));
  ByteReader inner(r.get_bytes(base::kMaxGreeting));
  Frame frame;
  frame.type = inner.get<FrameType>();
  const ByteView payload = inner.get_bytes(base::kMaxGreeting);
  if (!r.ok() || !inner.ok()) return false;
  frame.payload.assign(payload.begin(), payload.end());
  return obey(frame);
}

// A root that has this rank's check-in tells the others why it leaves.
Status Bootstrap::State::Joining::cancelled() const {
  const auto why = s.options.cancel ? s.options.cancel->why() : std::nullopt;
  if (!why) return {};
  const Error told = start_aborted(*why, s.rank, s.options.host);
  if (line && !send_frame(line.get(), FrameType::failure, encode_error(told)))
    COLL_INFO(bootstrap, "rank {}: its root was already gone", s.rank);
  return *why;
}

Status Bootstrap::State::Joining::wait_for_place() {
  std::vector<pollfd> fds;
  while (true) {
    COLL_TRY(cancelled());
    if (line) {
      COLL_ASSIGN(const bool placed, read_line());
      if (placed) return {};
    }
    calls->handle();
    while (auto caller = calls->next()) {
      COLL_ASSIGN(const bool placed, read_call(caller->greeting));
      if (placed) return {};
    }
    fds.clear();
    if (line) fds.push_back({line.get(), POLLIN, 0});
    const int off = s.options.cancel ? s.options.cancel->fd() : -1;
    if (off >= 0) fds.push_back({off, POLLIN, 0});
    // Without a descriptor to be cancelled by, the wish is looked for.
    const bool looks = s.options.cancel && off < 0;
    calls->add_interest(fds);
    const Deadline until =
        looks ? deadline().earlier(Deadline::after_ms(kCancelLookMs)) : deadline();
    COLL_ASSIGN(const int ready, base::poll_fds(fds, until));
    if (ready == 0 && deadline().passed())
      return Error(ErrorCode::deadline,
                   format("rank {} checked in, but the root at {} did not answer until the "
                          "deadline",
                          s.rank, root().root_address().text()),
                   "the process of rank 0 may be stopped; see its output");
  }
}

namespace {

// One connection this rank opens. A peer that cannot be reached is tried a few times more: for a
// dead one that costs little, for one whose host is short of ports or memory it helps.
struct Outgoing {
  const RankAt* to;
  Purpose purpose;
  std::unique_ptr<base::AuthConnector> connector;
  int tries_left = 4;
  Fd done;
  bool adopted = false;

  Result<bool> progress(const base::Secret& secret, int rank) {
    if (done || adopted) return true;
    if (!connector) {
      COLL_ASSIGN(connector,
                  base::AuthConnector::start(to->address, secret,
                                             PeerGreeting{purpose, rank, to->rank}.encode()));
    }
    Result<bool> finished = connector->progress();
    if (!finished && !connector->connected() && tries_left-- > 0) {
      connector.reset();
      base::sleep_until(Deadline::after_ms(20));
      return false;
    }
    if (finished && *finished) done = connector->take();
    return finished;
  }
};

}  // namespace

// The deadline passed: who this rank could not reach, and who has not called it.
Error Bootstrap::State::Joining::not_connected(std::vector<int> missing) const {
  const bool ring = s.size <= kRingAtMost;
  if (!s.service->has_previous() || (ring && !s.ring_previous))
    missing.push_back(place.previous.rank);
  for (const int child : tree_children(s.rank, s.groups, s.size))
    if (!ring && std::none_of(s.children.begin(), s.children.end(),
                              [&](const auto& link) { return link->peer() == child; }))
      missing.push_back(child);
  std::sort(missing.begin(), missing.end());
  missing.erase(std::unique(missing.begin(), missing.end()), missing.end());
  std::vector<std::string> hosts;
  for (const Member& m : s.members) hosts.push_back(m.host);
  Error e(ErrorCode::deadline,
          format("{} is not connected with: {}", s.name(s.rank), rank_list(missing, hosts)),
          "those ranks are stopped, or a firewall separates their hosts");
  if (!missing.empty()) {
    e.rank = missing.front();
    e.host = hosts[size_t(e.rank)];
  }
  return e;
}

Status Bootstrap::State::Joining::connect() {
  const std::string what = "bootstrap: connect";
  const bool ring = s.size <= kRingAtMost, leaf_of_tree = !ring && place.parent.rank >= 0;
  COLL_ASSIGN(s.service,
              Service::start({s.rank, s.size, s.groups, std::move(peers), std::move(line),
                              std::move(reader), root().root_address().text(), place.next,
                              place.previous}));
  cancelling.emplace(s.options.cancel, [this](const Error& why) {
    s.service->announce(start_aborted(why, s.rank, s.options.host));
  });
  const size_t children_due = ring ? 0 : tree_children(s.rank, s.groups, s.size).size();
  std::vector<Outgoing> outgoing;
  outgoing.push_back({&place.next, Purpose::control, nullptr, 4, {}, false});
  if (ring) outgoing.push_back({&place.next, Purpose::ring, nullptr, 4, {}, false});
  if (leaf_of_tree) outgoing.push_back({&place.parent, Purpose::tree, nullptr, 4, {}, false});
  std::vector<pollfd> fds;
  while (true) {
    COLL_TRY_IN(s.news(), what);
    bool complete = s.service->has_previous() && s.children.size() == children_due &&
                    (!ring || s.ring_previous != nullptr);
    fds.assign(1, {s.service->wake_fd(), POLLIN, 0});
    for (Outgoing& out : outgoing) {
      const Result<bool> done = out.progress(s.secret, s.rank);
      if (!done) return s.lost(out.to->rank, what, done.error());
      complete &= *done;
      // At once: a notice must be able to reach the successor even if this start-up fails.
      if (out.done && out.purpose == Purpose::control) {
        s.service->adopt_next(std::move(out.done));
        out.adopted = true;
      }
      if (!*done && out.connector) fds.push_back({out.connector->fd(), out.connector->events(), 0});
    }
    if (complete) break;
    const bool retrying = std::any_of(outgoing.begin(), outgoing.end(), [](const Outgoing& out) {
      return !out.done && !out.adopted && !out.connector;
    });
    COLL_ASSIGN(const int ready,
                base::poll_fds(fds, retrying ? Deadline::after_ms(0) : deadline()));
    if (ready > 0 || retrying) continue;
    std::vector<int> missing;
    for (const Outgoing& out : outgoing)
      if (!out.done && !out.adopted) missing.push_back(out.to->rank);
    return std::move(not_connected(std::move(missing)).within(what));
  }
  const uint64_t longest = uint64_t(s.size) * (kMaxBlob + 8);
  if (ring)
    s.ring_next = std::make_unique<DataLink>(std::move(outgoing[1].done), place.next.rank, longest);
  if (leaf_of_tree)
    s.parent = std::make_unique<DataLink>(std::move(outgoing[1].done), place.parent.rank, longest);
  s.service->report_connected();
  return {};
}

Status Bootstrap::State::Joining::exchange_table() {
  const Member& self = s.members[size_t(s.rank)];
  ByteWriter w;
  self.address.write(w);
  w.put_string(self.host.substr(0, kMaxHostName)).put(self.fd_nonce);
  w.put(hash_text(s.options.task));
  s.tasks.resize(s.members.size());
  COLL_TRY(s.gather(
      w.bytes(), deadline(), "bootstrap: exchange of addresses",
      [this](int of, ByteView entry) -> Status {
        ByteReader r(entry);
        Member& m = s.members[size_t(of)];
        m.address = Address::read(r);
        m.host = r.get_string(kMaxHostName);
        m.fd_nonce = r.get<uint64_t>();
        s.tasks[size_t(of)] = r.get<uint64_t>();
        if (!r.ok() || m.address.length == 0)
          return Error(ErrorCode::defect, "malformed entry in the table of ranks").blame(of);
        return {};
      }));
  // Everybody is connected now: the ring's control connections take over from the root.
  s.service->leave_root();
  return {};
}

Status Bootstrap::State::join() {
  Joining j{*this, {}, 0, nullptr, nullptr, {}, {}, {}, {}, {}};
  const int64_t start = now_ns();
  int64_t at = start;
  const auto lap = [&at](double& into) {
    into = base::seconds_since(at);
    at = now_ns();
  };
  COLL_TRY_IN(j.check_options(), "bootstrap");
  COLL_TRY_IN(j.listen(), "bootstrap: listen");
  lap(times.listen);
  COLL_TRY(j.check_in());
  lap(times.check_in);
  COLL_TRY(j.wait_for_place());
  lap(times.wait_root);
  if (size > 1) {
    COLL_TRY(keep(j.connect()));
    COLL_TRY(j.exchange_table());
  } else if (j.line) {
    // Alone: nothing to connect. A root that ended meanwhile has nothing to say either.
    if (!send_frame(j.line.get(), FrameType::connected, {})) j.line.reset();
  }
  lap(times.connect);
  times.total = base::seconds_since(start);
  COLL_INFO(bootstrap,
            "rank {} of {}: bootstrap {:.3f} s (listen {:.3f}, check in {:.3f}, wait for root "
            "{:.3f}, connect {:.3f})",
            rank, size, times.total, times.listen, times.check_in, times.wait_root, times.connect);
  return {};
}

Result<std::unique_ptr<Bootstrap>> Bootstrap::join(const Options& options) {
  std::unique_ptr<Bootstrap> made(new Bootstrap);
  made->state_ = std::make_unique<State>(options);
  Status joined = made->state_->join();
  if (joined) {
    Status same = made->state_->same_task();
    if (same) return made;
    // All have come to this: they leave together, or one might take another for lost.
    (void)made->finish(options.deadline.earlier(Deadline::after_seconds(kPartSeconds)));
    return std::move(same.error());
  }
  // Own reasons come without the name that the others are told.
  const auto why = options.cancel ? options.cancel->why() : std::nullopt;
  return why ? *why : std::move(joined.error());
}

}  // namespace collctl::runtime
