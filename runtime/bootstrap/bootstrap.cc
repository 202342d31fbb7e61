#include "runtime/bootstrap/bootstrap.h"

#include <algorithm>

#include "base/check.h"
#include "base/log.h"
#include "runtime/bootstrap/state.h"

namespace collctl::runtime {

using namespace boot;

namespace {

// How long a broken link waits for the notice that says who is really lost.
constexpr int64_t kNoticeMs = 500;

}  // namespace

Bootstrap::Bootstrap() = default;
Bootstrap::~Bootstrap() = default;

Bootstrap::State::~State() {
  // Neighbours learn why this rank aborts, not only that it is gone.
  if (service && broken && !finished) service->announce(*broken);
}

int Bootstrap::rank() const {
  return state_->rank;
}

int Bootstrap::size() const {
  return state_->size;
}

const PhaseTimes& Bootstrap::times() const {
  return state_->times;
}

void Bootstrap::cancel() {
  if (state_->service) state_->service->cancel();
}

std::string Bootstrap::State::name(int of_rank) const {
  return rank_text(of_rank, size_t(of_rank) < members.size() ? members[size_t(of_rank)].host : "");
}

Status Bootstrap::State::news() {
  if (!service) return {};
  service->clear_news();
  if (service->cancelled())
    return Error(ErrorCode::interrupted, format("rank {} was told to stop", rank));
  for (Incoming& in : service->take_incoming()) adopt(std::move(in));
  if (auto notice = service->notice()) return std::move(notice->error);
  return {};
}

void Bootstrap::State::adopt(Incoming in) {
  const int from = in.from;
  if (in.purpose == Purpose::message) {
    std::unique_ptr<DataLink>& slot = incoming[from];
    if (slot && slot->open()) {
      COLL_WARN("rank {}: a second message connection from {} was dropped", rank, name(from));
      return;
    }
    slot = std::make_unique<DataLink>(std::move(in.fd), from, kMaxBlob);
    slot->expect();
    return;
  }
  const uint64_t longest = uint64_t(size) * (kMaxBlob + 8);
  auto link = std::make_unique<DataLink>(std::move(in.fd), from, longest);
  if (in.purpose == Purpose::ring && !ring_previous) {
    ring_previous = std::move(link);
    return;
  }
  const bool known = std::any_of(children.begin(), children.end(),
                                 [from](const auto& child) { return child->peer() == from; });
  if (in.purpose == Purpose::tree && !known)
    children.push_back(std::move(link));
  else
    COLL_WARN("rank {}: a second data connection from {} was dropped", rank, name(from));
}

Status Bootstrap::State::drive(const Links& links, Deadline deadline, const std::string& what,
                               const std::function<bool()>& done, int awaited_sender) {
  std::vector<pollfd> fds;
  while (true) {
    COLL_TRY_IN(news(), what);
    for (DataLink* link : links)
      if (link->events() != 0)
        if (Status moved = link->progress(); !moved) return lost(link->peer(), what, moved.error());
    COLL_TRY_IN(receive_messages(awaited_sender), what);
    if (done()) return {};
    fds.clear();
    if (service) fds.push_back({service->wake_fd(), POLLIN, 0});
    for (const DataLink* link : links)
      if (link->events() != 0) fds.push_back({link->fd(), link->events(), 0});
    for (const auto& [peer, link] : incoming)
      if (link->open() && may_read(*link, awaited_sender))
        fds.push_back({link->fd(), link->events(), 0});
    COLL_ASSIGN(const int ready, base::poll_fds(fds, deadline));
    if (ready == 0) return late(links, what, awaited_sender);
  }
}

Error Bootstrap::State::lost(int peer, const std::string& what, const Error& cause) {
  // Neither end is gone: one of them lacks descriptors.
  if (cause.code == ErrorCode::unavailable)
    return std::move(Error(cause).within(format("{}: {}", what, name(peer))));
  const Deadline until = Deadline::after_ms(kNoticeMs);
  while (service && !until.passed()) {
    if (Status seen = news(); !seen) return std::move(seen.error().within(what));
    pollfd p{service->wake_fd(), POLLIN, 0};
    if (const auto ready = base::poll_fds({&p, 1}, until); !ready) break;
  }
  Error e(ErrorCode::lost, format("{} is gone: {}", name(peer), cause.message),
          "see that rank's own output");
  e.rank = peer;
  if (size_t(peer) < members.size()) e.host = members[size_t(peer)].host;
  return std::move(e.within(what));
}

Error Bootstrap::State::late(const Links& links, const std::string& what,
                             int awaited_sender) const {
  std::vector<int> silent, deaf;
  std::vector<std::string> hosts;
  for (const Member& m : members) hosts.push_back(m.host);
  for (const DataLink* link : links) {
    if (link->expecting()) silent.push_back(link->peer());
    if (link->sending()) deaf.push_back(link->peer());
  }
  if (awaited_sender >= 0) silent.push_back(awaited_sender);
  std::sort(silent.begin(), silent.end());
  std::sort(deaf.begin(), deaf.end());
  std::string text = format("rank {} waited until the deadline", rank);
  if (!silent.empty()) text += " for " + rank_list(silent, hosts);
  if (!deaf.empty())
    text += format("{} {} to accept its data", silent.empty() ? " for" : " and for",
                   rank_list(deaf, hosts));
  Error e(ErrorCode::deadline, std::move(text),
          "that rank is slow, stopped, or in another call; see its own output");
  e.rank = !silent.empty() ? silent.front() : !deaf.empty() ? deaf.front() : -1;
  if (e.rank >= 0 && size_t(e.rank) < hosts.size()) e.host = hosts[size_t(e.rank)];
  return std::move(e.within(what));
}

Status Bootstrap::State::keep(Status outcome) {
  if (!outcome && !broken) broken = outcome.error();
  return outcome;
}

Status Bootstrap::start_watch(std::function<void(const AbortNotice&)> on_event) {
  if (state_->service) state_->service->watch(std::move(on_event));
  return {};
}

Error Bootstrap::AbortNotice::as_heard_by(int rank) const {
  Error heard = error;
  if (heard.rank < 0) heard.rank = origin;
  const std::string who = format("rank {} aborted", origin);
  if (origin >= 0 && origin != rank && !heard.message.starts_with(who)) heard.within(who);
  return heard;
}

void Bootstrap::announce_abort(const Error& error) {
  if (state_->service) state_->service->announce(error);
}

Status Bootstrap::finish(Deadline deadline) {
  State& s = *state_;
  if (s.finished || !s.service) {
    s.finished = true;
    return {};
  }
  COLL_TRY_IN(barrier(deadline), "finish");
  s.finished = true;
  s.service->say_bye();
  // All ranks are through the barrier: the neighbours' byes are in flight. Without them their
  // connections would still be open here, and closing ours could cut theirs short.
  while (!s.service->byes_received()) {
    s.service->clear_news();
    if (s.service->byes_received()) break;
    pollfd p{s.service->wake_fd(), POLLIN, 0};
    COLL_ASSIGN(const int ready, base::poll_fds({&p, 1}, deadline));
    if (ready == 0)
      return Error(ErrorCode::deadline,
                   format("rank {}: a ring neighbour did not say goodbye", s.rank));
  }
  return {};
}

}  // namespace collctl::runtime
