#include "runtime/bootstrap/join.h"

#include "base/check.h"
#include "base/host_facts.h"
#include "base/log.h"
#include "base/peer_closed.h"

namespace collctl::runtime {

using namespace boot;

namespace {

// Above this many ranks a root, check-ins are spread over time. Up to 1024 ranks it makes no
// measurable difference; beyond, it keeps the root's accept queue (often 4096) from overflowing,
// which would cost a second for each connection turned away.
constexpr int kPacedAbove = 128;
constexpr int64_t kPaceNs = 50'000;
constexpr int64_t kCancelLookMs = 50;  // between looks, where no descriptor is left to wake by
constexpr int64_t kAgainMs = 200;      // for a root that others wait at to answer
constexpr double kPartSeconds = 5;     // for goodbyes between ranks that cannot go on together

}  // namespace

Status Bootstrap::State::Joining::check_options() {
  const Options& o = s_.options;
  roots_ = o.roots.empty() ? std::vector<UniqueId>{o.id} : o.roots;
  if (o.size < 1 || o.size > kMaxRanks || o.rank < 0 || o.rank >= o.size)
    return Error(ErrorCode::usage, format("rank {} of {}: ranks go from 0 to the number of ranks "
                                          "- 1, at most {} ranks",
                                          o.rank, o.size, kMaxRanks));
  if (roots_.size() > kMaxRoots || int(roots_.size()) > o.size)
    return Error(ErrorCode::usage, format("{} bootstrap roots for {} ranks: at most one per "
                                          "rank, and {}",
                                          roots_.size(), o.size, kMaxRoots));
  for (const UniqueId& id : roots_)
    if (!base::equal_constant_time(id.secret.bytes, roots_[0].secret.bytes))
      return Error(ErrorCode::usage, "the unique ids of several roots must share one secret");
  s_.messages.set_secret(roots_[0].secret);
  s_.roster.members.resize(size_t(o.size));
  s_.roster.members[size_t(o.rank)].host = o.host;
  group_ = group_of(o.rank, groups(), o.size);
  return {};
}

Status Bootstrap::State::Joining::listen() {
  const Interface& interface = s_.options.interface;
  base::raise_open_file_limit();
  Address at = interface.address;
  at.set_port(0);
  COLL_ASSIGN(peers_, base::AuthListener::listen(at, roots_[0].secret));
  own_address_ = peers_->address();
  COLL_ASSIGN(calls_, base::AuthListener::listen(at, roots_[0].secret));
  COLL_ASSIGN(s_.fd_socket, FdSocket::open(rank(), roots_[0].secret));
  Roster::Member& self = s_.roster.members[size_t(rank())];
  self.address = own_address_;
  self.fd_socket = s_.fd_socket->address();
  COLL_INFO(init, "Bootstrap : Using [0]{}:{}<0>", interface.name, at.host_text());
  return {};
}

Status Bootstrap::State::Joining::check_in() {
  CheckIn c;
  c.rank = rank();
  c.size = size();
  c.root_index = group_;
  for (const UniqueId& id : roots_) c.roots.push_back(id.root_address());
  c.host = s_.options.host;
  c.peers = own_address_;
  c.calls = calls_->address();
  const int first = group_begin(group_, groups(), size()),
            ranks = group_begin(group_ + 1, groups(), size()) - first;
  if (ranks > kPacedAbove)
    base::sleep_until(Deadline::after_ns((rank() - first) * kPaceNs).earlier(deadline()));
  c.remaining_ms = deadline().remaining_ns() / 1'000'000;
  const Address at = root().root_address();
  base::Cancel* const off = s_.options.cancel.get();
  base::Session session;
  auto connected = base::auth_connect(at, root().secret, encoded(c), deadline(), {},
                                      off == nullptr ? nullptr : off->word(), &session);
  // A rank short of file descriptors can still decline: its failed start has freed some for that.
  if (s_.options.checks_in && (connected || connected.error().code != ErrorCode::unavailable))
    s_.options.checks_in();
  if (connected) {
    line_ = SealedFd(std::move(*connected), session);
    COLL_INFO(bootstrap, "rank {} of {} has checked in at the root {}", rank(), size(), at.text());
    return {};
  }
  Error e = std::move(connected.error());
  // Others that wait for this rank may be heard first, and end this attempt by that.
  const auto off_why = off == nullptr ? std::nullopt : off->why();
  if (off_why && off_why->code == ErrorCode::deadline)
    if (auto again = base::connect_tcp(at, Deadline::after_ms(kAgainMs), false); !again) {
      e = std::move(again.error());
      e.code = ErrorCode::deadline;
    }
  if (base::never_answered(e))
    return std::move(base::cannot_connect(rank_text(rank(), s_.options.host), "rank 0", "", e)
                         .blame(0)
                         .within("bootstrap: check-in at the root"));
  COLL_TRY(cancelled());
  if (e.hint.empty())
    e.hint = format(
        "rank {} could not check in: the process of rank 0 must be running, and {} must "
        "be reachable from this host ({})",
        rank(), at.text(), s_.options.host);
  return std::move(e.within("bootstrap: check-in at the root"));
}

// True once this rank has its place.
Result<bool> Bootstrap::State::Joining::obey(const Frame& frame) {
  if (frame.type == FrameType::failure) return decode_error(frame.payload);
  if (frame.type == FrameType::call_you) {
    line_.reset();
    return false;
  }
  if (frame.type != FrameType::place) return false;
  const auto p = decoded<Place>(frame.payload);
  if (!p) return Error(ErrorCode::defect, "the bootstrap root sent a malformed place");
  place_ = *p;
  for (const RankAt* at : {&place_.next, &place_.previous, &place_.parent})
    if (at->rank >= 0 && at->rank < size()) s_.roster.members[size_t(at->rank)].host = at->host;
  return true;
}

Result<bool> Bootstrap::State::Joining::read_line() {
  const Status state = reader_.fill(line_);
  while (auto frame = reader_.next()) {
    COLL_ASSIGN(const bool placed, obey(*frame));
    if (placed) return true;
    if (!line_) return false;
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
  const auto g = decoded<PeerGreeting>(greeting);
  if (!g || g->purpose != Purpose::call || g->to != rank()) return false;
  ByteReader r(g->frame);
  Frame frame;
  frame.type = r.get<FrameType>();
  const ByteView payload = r.get_bytes(base::kMaxGreeting);
  if (!r.ok()) return false;
  frame.payload.assign(payload.begin(), payload.end());
  return obey(frame);
}

// A root that has this rank's check-in tells the others why it leaves.
Status Bootstrap::State::Joining::cancelled() {
  const auto why = s_.options.cancel ? s_.options.cancel->why() : std::nullopt;
  if (!why) return {};
  const Error told = start_aborted(*why, rank(), s_.options.host);
  if (line_ && !send_frame(line_, FrameType::failure, encode_brief(told)))
    COLL_INFO(bootstrap, "rank {}: its root was already gone", rank());
  return *why;
}

Status Bootstrap::State::Joining::wait_for_place() {
  std::vector<pollfd> fds;
  while (true) {
    COLL_TRY(cancelled());
    if (line_) {
      COLL_ASSIGN(const bool placed, read_line());
      if (placed) return {};
    }
    calls_->handle();
    while (auto caller = calls_->next()) {
      COLL_ASSIGN(const bool placed, read_call(caller->greeting));
      if (placed) return {};
    }
    fds.clear();
    if (line_) fds.push_back({line_.get(), POLLIN, 0});
    const int off = s_.options.cancel ? s_.options.cancel->fd() : -1;
    if (off >= 0) fds.push_back({off, POLLIN, 0});
    // Without a descriptor to be cancelled by, it looks for the request itself.
    const bool looks = s_.options.cancel && off < 0;
    calls_->add_interest(fds);
    const Deadline until =
        looks ? deadline().earlier(Deadline::after_ms(kCancelLookMs)) : deadline();
    COLL_ASSIGN(const int ready, base::poll_fds(fds, until));
    if (ready == 0 && deadline().passed())
      return Error(ErrorCode::deadline,
                   format("rank {} checked in, but the root at {} did not answer until the "
                          "deadline",
                          rank(), root().root_address().text()),
                   "the process of rank 0 may be stopped; see its output");
  }
}

Status Bootstrap::State::Joining::run() {
  const int64_t start = now_ns();
  int64_t at = start;
  const auto lap = [&at](double& into) {
    into = base::seconds_since(at);
    at = now_ns();
  };
  PhaseTimes& phases = s_.times;
  COLL_TRY_IN(check_options(), "bootstrap");
  COLL_TRY_IN(listen(), "bootstrap: listen");
  lap(phases.listen);
  COLL_TRY(check_in());
  lap(phases.check_in);
  COLL_TRY(wait_for_place());
  lap(phases.wait_root);
  if (size() > 1) {
    COLL_TRY(s_.gathering.keep(connect()));
    COLL_TRY(exchange_table());
  } else if (line_) {
    // Alone: nothing to connect. A root that ended meanwhile has nothing to say either.
    if (!send_frame(line_, FrameType::connected, {})) line_.reset();
  }
  cancelling_.reset();
  lap(phases.connect);
  phases.total = base::seconds_since(start);
  COLL_INFO(bootstrap,
            "rank {} of {}: bootstrap {:.3f} s (listen {:.3f}, check in {:.3f}, wait for root "
            "{:.3f}, connect {:.3f})",
            rank(), size(), phases.total, phases.listen, phases.check_in, phases.wait_root,
            phases.connect);
  return {};
}

Result<std::unique_ptr<Bootstrap>> Bootstrap::join(const Options& options) {
  std::unique_ptr<Bootstrap> made(new Bootstrap);
  made->state_ = std::make_unique<State>(options);
  State::Joining joining(*made->state_);
  Status joined = joining.run();
  if (joined) {
    Status same = joining.same_task();
    if (same) return made;
    // All have come to this: they leave together, or one might take another for lost.
    (void)made->finish(options.deadline.earlier(Deadline::after_seconds(kPartSeconds)));
    return std::move(same.error());
  }
  // This rank's own reason comes without the rank's name, which is added for the others. A peer
  // that this rank could not reach explains why others wait until they cancel.
  const auto why = options.cancel ? options.cancel->why() : std::nullopt;
  return why && !base::says_broken_way(joined.error()) ? *why : joined.error();
}

}  // namespace collctl::runtime
