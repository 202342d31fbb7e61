#include "runtime/bootstrap/root.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>

#include "base/host_facts.h"
#include "base/log.h"

namespace collctl::runtime {

using namespace boot;

BootstrapRoot::BootstrapRoot() : state_(std::make_unique<State>()) {}

Result<std::unique_ptr<BootstrapRoot>> BootstrapRoot::start(const Options& options) {
  std::unique_ptr<BootstrapRoot> made(new BootstrapRoot);
  State& s = *made->state_;
  s.options = options;
  const uint64_t files = base::raise_open_file_limit();
  s.lines_at_most = options.lines_at_most != 0 ? options.lines_at_most : files / 2;
  auto listener = base::AuthListener::listen(options.listen_at, options.secret, options.reuse_port);
  if (!listener) {
    Error e = std::move(listener.error()).within("bootstrap root");
    if (options.listen_at.port() != 0 && e.hint.empty())
      e.hint = "rank 0 must run on the host that --join, COLLCTL_COMM_ID or MASTER_ADDR names";
    return e;
  }
  s.listener = std::move(*listener);
  s.wake = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!s.wake) return base::errno_error(ErrorCode::unavailable, "eventfd", errno);
  s.thread = std::thread([state = made->state_.get()] { state->run(); });
  return made;
}

BootstrapRoot::~BootstrapRoot() {
  state_->stop = true;
  const uint64_t one = 1;
  if (state_->wake)
    while (::write(state_->wake.get(), &one, sizeof one) < 0 && errno == EINTR) {
    }
  if (state_->thread.joinable()) state_->thread.join();
}

const Address& BootstrapRoot::address() const {
  return state_->listener->address();
}

void BootstrapRoot::State::run() {
  std::vector<pollfd> fds;
  while (!stop) {
    fds.clear();
    add_interest(fds);
    const bool waiting = phase == Phase::collecting || phase == Phase::complete || !calls.empty();
    Deadline until = Deadline::after_seconds(waiting || fds.size() > 2 ? 1 : 3600);
    if (phase == Phase::collecting || phase == Phase::complete)
      until = until.earlier(deadline.passed() ? last_word : deadline);
    // A root that has not reached the first one tries again.
    if (index > 0 && seeks_first() && !to_first) until = until.earlier(Deadline::after_ms(20));
    if (const auto ready = base::poll_fds(fds, until); !ready) {
      fail(ready.error());
      return;
    }
    if (!stop) turn();
  }
  // Messages that a rank of this very process sent before it stopped us still reach the others.
  for (const auto& line : lines)
    if (phase != Phase::failed && line && line->fd) read_line(*line);
}

void BootstrapRoot::State::add_interest(std::vector<pollfd>& fds) {
  fds.push_back({wake.get(), POLLIN, 0});
  listener->add_interest(fds);
  for (const auto& line : lines)
    if (line && line->fd) fds.push_back({line->fd.get(), POLLIN, 0});
  for (const Peer& peer : peers)
    if (peer.fd) fds.push_back({peer.fd.get(), POLLIN, 0});
  if (to_first) fds.push_back({to_first->fd(), to_first->events(), 0});
  for (const Call& call : calls) fds.push_back({call.connector->fd(), call.connector->events(), 0});
}

void BootstrapRoot::State::turn() {
  listener->handle();
  accept_callers();
  // One poll says which of the many lines have something to say.
  std::vector<pollfd> fds;
  std::vector<Line*> readable;
  for (const auto& line : lines)
    if (line && line->fd) {
      fds.push_back({line->fd.get(), POLLIN, 0});
      readable.push_back(line.get());
    }
  if (const auto n = base::poll_fds(fds, Deadline::at_ns(0)); n && *n > 0)
    for (size_t i = 0; i < fds.size(); ++i)
      if (fds[i].revents != 0 && readable[i]->fd) read_line(*readable[i]);
  for (Peer& peer : peers)
    if (peer.fd) read_peer(peer);
  advance_roots();
  drive_calls();
  if (phase == Phase::collecting || phase == Phase::complete) at_deadline();
}

void BootstrapRoot::State::accept_callers() {
  while (auto caller = listener->next()) {
    const uint32_t purpose = purpose_of(caller->greeting);
    if (purpose == uint32_t(Purpose::root))
      welcome_root(std::move(*caller));
    else if (purpose == uint32_t(Purpose::decline))
      decline(std::move(*caller));
    else
      check_in(std::move(*caller));
  }
}

// The first check-in says what the job is; the others must agree.
Status BootstrapRoot::State::adopt_job(const CheckIn& c) {
  if (size == 0) {
    size = c.size;
    index = c.root_index;
    roots = c.roots;
    first = group_begin(index, int(roots.size()), size);
    end = group_begin(index + 1, int(roots.size()), size);
    lines.resize(size_t(std::max(end - first, 0)));
    return {};
  }
  if (c.size == size && c.root_index == index && c.roots.size() == roots.size()) return {};
  Error e(ErrorCode::usage,
          c.size != size ? format("{} reports a job of {} ranks; the ranks before it reported {}",
                                  rank_text(c.rank, c.host), c.size, size)
                         : format("{} has other bootstrap roots than the ranks before it",
                                  rank_text(c.rank, c.host)),
          "start all ranks with the same number of ranks and the same unique ids");
  e.rank = c.rank;
  e.host = c.host;
  return e;
}

void BootstrapRoot::State::check_in(base::Accepted caller) {
  const auto c = decoded<CheckIn>(caller.greeting);
  if (!c) {
    COLL_WARN("bootstrap root: rejected {}: its check-in is malformed", caller.from.text());
    return refuse(SealedFd(std::move(caller)),
                  Error(ErrorCode::usage, "the bootstrap root does not understand this check-in",
                        "use the same version of collctl on every host"));
  }
  if (phase == Phase::failed) {
    refuse(SealedFd(std::move(caller)), verdict);
    return count_told(c->rank);
  }
  if (Status agreed = adopt_job(*c); !agreed) {
    refuse(SealedFd(std::move(caller)), agreed.error());
    if (phase != Phase::placed) fail(agreed.error());
    return;
  }
  std::string why;
  if (c->rank < first || c->rank >= end)
    why = format("rank {} is not one of the ranks {} to {}", c->rank, first, end - 1);
  else if (const auto& known = lines[size_t(c->rank - first)])
    why = format("rank {} has already checked in from {} (this one comes from host {}, {})",
                 c->rank, known->host, c->host, caller.from.text());
  if (!why.empty()) {
    COLL_WARN("bootstrap root: refused a rank: {}", why);
    if (refused.size() < 4) refused.push_back(why);
    Error e(ErrorCode::usage, "the bootstrap root refused this rank: " + why,
            "give every rank its own number from 0 to the number of ranks - 1");
    e.rank = c->rank;
    return refuse(SealedFd(std::move(caller)), e);
  }
  auto line = std::make_unique<Line>();
  line->rank = c->rank;
  line->host = c->host;
  line->peers = c->peers;
  line->calls = c->calls;
  line->fd = SealedFd(std::move(caller));
  Line& kept = *line;
  lines[size_t(c->rank - first)] = std::move(line);
  ++checked_in;
  // The error must reach the ranks before their own deadlines.
  const int64_t margin_ms = std::clamp<int64_t>(c->remaining_ms / 4, 100, 3000);
  deadline = deadline.earlier(Deadline::after_ms(c->remaining_ms - margin_ms));
  // Another root than the first waits a little longer for the first one's word.
  const int64_t last_ms = margin_ms / (index == 0 ? 2 : 4);
  last_word = last_word.earlier(Deadline::after_ms(c->remaining_ms - last_ms));
  if (open_lines < lines_at_most) {
    ++open_lines;
  } else {
    tell(kept, FrameType::call_you, {});
    kept.fd.reset();
    kept.called = true;
  }
  if (checked_in == end - first) phase = Phase::complete;
}

void BootstrapRoot::State::refuse(SealedFd fd, const Error& why) {
  // A caller that hung up meanwhile no longer needs the reason.
  if (!send_frame(fd, FrameType::failure, encode_brief(why)))
    COLL_INFO(bootstrap, "bootstrap root: a refused rank was already gone");
}

void BootstrapRoot::State::tell(Line& line, FrameType type, ByteView payload) {
  if (line.called) {
    calls_due.emplace_back(line.rank, encode_frame(type, payload));
    return;
  }
  if (line.fd && !send_frame(line.fd, type, payload))
    COLL_INFO(bootstrap, "bootstrap root: {} is no longer listening",
              rank_text(line.rank, line.host));  // read_line finds the end of the line
}

void BootstrapRoot::State::read_line(Line& line) {
  const Status state = line.reader.fill(line.fd);
  while (auto frame = line.reader.next()) {
    if (frame->type == FrameType::connected) line.connected = true;
    if (frame->type == FrameType::failure && !line.connected) {
      Error e = decode_error(frame->payload);
      if (e.from < 0) e.from = line.rank;
      fail(std::move(e));
    }
  }
  if (state) return;
  line.fd.reset();
  --open_lines;
  if (line.connected || phase == Phase::failed) return;
  Error lost(ErrorCode::lost,
             phase == Phase::placed
                 ? format("{} was lost while the ranks connected to each other",
                          rank_text(line.rank, line.host))
                 : format("{} was lost after it had checked in; {}/{} ranks were there",
                          rank_text(line.rank, line.host), checked_in, size),
             "see that rank's own output");
  lost.rank = line.rank;
  lost.host = line.host;
  fail(std::move(lost));
}

void BootstrapRoot::State::fail(Error why) {
  if (phase == Phase::failed) return;
  phase = Phase::failed;
  verdict = std::move(why);
  const Bytes payload = encode_brief(verdict);
  untold = size;
  for (const auto& line : lines)
    if (line) {
      tell(*line, FrameType::failure, payload);
      count_told(line->rank);
    }
  for (Peer& peer : peers)
    if (peer.fd && !send_frame(peer.fd, FrameType::failure, payload)) peer.fd.reset();
}

RankAt BootstrapRoot::State::at(int rank) const {
  if (rank < first || rank >= end) {
    for (const RankAt& leader : leaders)
      if (leader.rank == rank) return leader;
    return {rank, {}, {}};
  }
  const Line& line = *lines[size_t(rank - first)];
  return {rank, line.peers, line.host};
}

std::vector<int> BootstrapRoot::State::missing() const {
  std::vector<int> ranks;
  for (int rank = first; rank < end; ++rank)
    if (!lines[size_t(rank - first)]) ranks.push_back(rank);
  return ranks;
}

void BootstrapRoot::State::at_deadline() {
  if (size == 0 || !deadline.passed()) return;
  if (index > 0 && !reported) report_to_first();
  // Several roots: the first one waits a little for what the others know.
  if (roots.size() > 1 && !last_word.passed() && !(index == 0 && all_reports(false))) return;
  fail(missing_error());
}

}  // namespace collctl::runtime
