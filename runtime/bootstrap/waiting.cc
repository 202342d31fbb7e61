#include "runtime/bootstrap/waiting.h"

#include <algorithm>

#include "base/format.h"
#include "base/log.h"
#include "base/peer_closed.h"
#include "base/wait.h"

namespace collctl::runtime::boot {
namespace {

// How long a broken link waits for the notice that says who is really lost.
constexpr int64_t kNoticeMs = 500;
constexpr const char *kLate = "waited until the deadline",
                     *kMeanwhile = "waited as well, until another's deadline,";

}  // namespace

Status Waiting::news() {
  if (!service_) return {};
  service_->clear_news();
  if (service_->cancelled())
    return Error(ErrorCode::interrupted, format("rank {} was told to stop", roster_.rank));
  for (Incoming& in : service_->take_incoming()) adopt(std::move(in));
  if (auto notice = service_->notice()) return std::move(notice->error);
  return {};
}

void Waiting::adopt(Incoming in) {
  const int from = in.from;
  if (in.purpose == Purpose::message) return mailbox_.adopt(from, std::move(in.fd));
  const uint64_t longest = uint64_t(roster_.size) * (kMaxBlob + 8);
  auto link = std::make_unique<DataLink>(std::move(in.fd), from, longest);
  if (in.purpose == Purpose::ring && !data_.ring_previous) {
    data_.ring_previous = std::move(link);
    return;
  }
  const bool known = std::any_of(data_.children.begin(), data_.children.end(),
                                 [from](const auto& child) { return child->peer() == from; });
  if (in.purpose == Purpose::tree && !known)
    data_.children.push_back(std::move(link));
  else
    COLL_WARN("rank {}: a second data connection from {} was dropped", roster_.rank,
              roster_.name(from));
}

void Waiting::add_interest(std::vector<pollfd>& fds) const {
  if (service_) fds.push_back({service_->wake_fd(), POLLIN, 0});
}

Status Waiting::drive(const Links& links, Deadline deadline, const std::string& what,
                      const std::function<bool()>& done, int awaited_sender) {
  using Next = base::Patience::Next;
  static base::WaitPolicy at_once(base::WaitPolicy::crowded());
  base::Patience patience(policy_ != nullptr ? *policy_ : at_once, 0);
  std::vector<pollfd> fds;
  while (true) {
    if (Status told = news(); !told) return ended(told.error(), links, what, awaited_sender);
    for (DataLink* link : links)
      if (link->events() != 0)
        if (Status moved = link->progress(); !moved)
          return lost(link->peer(), what, moved.error(), links, awaited_sender);
    COLL_TRY_IN(mailbox_.receive(awaited_sender), what);
    if (done()) {
      if (patience.slept()) patience.ended(now_ns());
      return {};
    }
    fds.clear();
    add_interest(fds);
    for (const DataLink* link : links)
      if (link->events() != 0) fds.push_back({link->fd(), link->events(), 0});
    mailbox_.add_interest(fds, awaited_sender);
    // Patience's spin is a yield here, too: the rank's service thread is on this core.
    int ready = 0;
    while (ready == 0 && patience.next(now_ns()) != Next::sleep && !deadline.passed()) {
      base::yield_thread();
      COLL_ASSIGN(ready, base::poll_fds(fds, Deadline::at_ns(0)));
    }
    if (ready != 0) continue;
    patience.sleeps();
    COLL_ASSIGN(ready, base::poll_fds(fds, deadline));
    if (ready == 0) return late(links, what, awaited_sender);
  }
}

Error Waiting::lost(int peer, const std::string& what, const Error& cause, const Links& links,
                    int awaited_sender) {
  // Neither end is gone: one of them lacks descriptors.
  if (cause.code == ErrorCode::unavailable)
    return std::move(Error(cause).within(format("{}: {}", what, roster_.name(peer))));
  const Deadline until = Deadline::after_ms(kNoticeMs);
  while (service_ && !until.passed()) {
    if (Status seen = news(); !seen) return ended(seen.error(), links, what, awaited_sender);
    pollfd p{service_->wake_fd(), POLLIN, 0};
    if (const auto ready = base::poll_fds({&p, 1}, until); !ready) break;
  }
  Error e(ErrorCode::lost, format("{} is gone: {}", roster_.name(peer), cause.message),
          "see that rank's own output");
  e.cause = cause.cause;
  e.rank = peer;
  e.host = roster_.host(peer);
  return std::move(e.within(what));
}

Error Waiting::unreachable(const RankAt& peer, const Error& cause) const {
  return base::cannot_connect(roster_.name(roster_.rank), rank_text(peer.rank, peer.host),
                              peer.host, cause)
      .blame(peer.rank);
}

Error Waiting::late(const Links& links, const std::string& what, int awaited_sender) const {
  Error mine = waits(links, what, awaited_sender, kLate);
  mine.cause = Cause::late;
  auto why = cannot_reach();
  if (!why) return mine;
  why->awaited = mine.rank;
  return std::move(why->within(what));
}

// Where ranks wait for each other along a chain, one's deadline is the first to pass, and it knows
// only whom it waits for itself: who hears of it says as much, so that the chain is seen to its
// end.
Error Waiting::ended(const Error& notice, const Links& links, const std::string& what,
                     int awaited_sender) const {
  Error heard = notice;
  if (notice.code == ErrorCode::deadline || notice.code == ErrorCode::lost) {
    Error mine = waits(links, what, awaited_sender, kMeanwhile);
    auto why = cannot_reach();
    if (!why && mine.rank >= 0 && notice.cause == Cause::late) return mine;
    if (why) heard = std::move(*why);
    heard.awaited = mine.rank;
  }
  return std::move(heard.within(what));
}

std::optional<Error> Waiting::cannot_reach() const {
  std::vector<const DataLink*> links = {data_.ring_next.get(), data_.ring_previous.get(),
                                        data_.parent.get()};
  for (const auto& child : data_.children) links.push_back(child.get());
  for (const DataLink* link : links) {
    if (link == nullptr || !link->open()) continue;
    const double seconds = base::unacknowledged_s(link->fd());
    if (seconds <= 0) continue;
    Error e = base::cannot_reach(roster_.name(roster_.rank), roster_.name(link->peer()), seconds);
    e.rank = link->peer();
    e.host = roster_.host(link->peer());
    return e;
  }
  return std::nullopt;
}

Error Waiting::waits(const Links& links, const std::string& what, int awaited_sender,
                     const char* how) const {
  std::vector<int> silent, unread;  // ranks that send nothing, that take nothing
  const std::vector<std::string> hosts = roster_.hosts();
  for (const DataLink* link : links) {
    if (link->expecting()) silent.push_back(link->peer());
    if (link->sending()) unread.push_back(link->peer());
  }
  if (awaited_sender >= 0) silent.push_back(awaited_sender);
  std::sort(silent.begin(), silent.end());
  std::sort(unread.begin(), unread.end());
  std::string text = format("rank {} {}", roster_.rank, how);
  if (!silent.empty()) text += " for " + rank_list(silent, hosts);
  if (!unread.empty())
    text += format("{} {} to accept its data", silent.empty() ? " for" : " and for",
                   rank_list(unread, hosts));
  Error e(ErrorCode::deadline, std::move(text),
          "that rank is slow, stopped, or in another call; see its own output");
  e.rank = !silent.empty() ? silent.front() : !unread.empty() ? unread.front() : -1;
  if (e.rank >= 0) e.host = roster_.host(e.rank);
  return std::move(e.within(what));
}

}  // namespace collctl::runtime::boot
