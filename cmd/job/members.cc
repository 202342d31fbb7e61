#include "cmd/job/members.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"

namespace collctl::cmd {

using launcher::FrameType;

namespace {

constexpr int64_t kLeaveLookMs = 200;     // how often who has not left is looked at
constexpr double kAllLeaveSeconds = 1.5;  // then nobody waits for one that is stopped
constexpr int64_t kHaltSendMs = 100;      // a frame to a rank that may not read
constexpr int kFewestLeft = 2;            // that can go on: one alone has no peer
constexpr double kSendSeconds = 10;

}  // namespace

bool all_are_heard(const std::vector<RankFacts>& ranks, const std::vector<int>& members,
                   bool settled) {
  return std::ranges::all_of(members, [&](int member) {
    const RankFacts& r = ranks[size_t(member)];
    return r.exited || r.broken || (settled && (r.state == 'T' || r.state == 't'));
  });
}

Regrouped regrouped(const std::vector<RankFacts>& ranks, const std::vector<int>& members) {
  Regrouped found;
  for (const int member : members) {
    const RankFacts& r = ranks[size_t(member)];
    if (r.exited && !r.end.error && !died(r)) continue;
    if (!r.exited && r.broken) {
      found.left.push_back(member);
      continue;
    }
    LostRanks lost = why_lost(r);
    const auto same = std::ranges::find_if(
        found.lost, [&](const LostRanks& l) { return l.host == lost.host && l.why == lost.why; });
    if (same == found.lost.end())
      found.lost.push_back(std::move(lost));
    else
      same->ranks.push_back(member);
  }
  return found;
}

Status tell(launcher::RankGroup& job, int rank, FrameType type, ByteView payload) {
  Status sent = job.send(rank, type, payload, Deadline::after_seconds(kSendSeconds));
  if (!sent && sent.error().code == ErrorCode::lost) return {};
  return sent;
}

void Members::lose(const Error& what, double answer_s, launcher::RankGroup& job,
                   const std::vector<RankFacts>& facts) {
  loss_ = Loss{what, Deadline::after_seconds(std::max(answer_s, kAllLeaveSeconds)),
               Deadline::after_seconds(kAllLeaveSeconds)};
  job.look();
  // Without any rank's number: theirs are other than the job's by then.
  const Bytes word = launcher::encode_error(
      Error(what.code, "its communicator has lost a rank").because(Cause::halted));
  for (const int rank : ranks_) {
    const RankFacts& r = facts[size_t(rank)];
    if (r.exited || r.broken) continue;
    // A rank that cannot be told does not answer, either.
    static_cast<void>(job.send(rank, FrameType::halt, word, Deadline::after_ms(kHaltSendMs)));
  }
}

Error Members::why_left(Error said) const {
  if (!loss_ || said.cause != Cause::halted) return said;
  Error told = loss_->first;
  told.awaited = said.awaited;
  return std::move(told).within("as the launcher says");
}

std::optional<Regrouped> Members::decided(launcher::RankGroup& job,
                                          std::vector<RankFacts>& facts) const {
  job.look();
  for (RankFacts& r : facts) r.state = r.exited ? r.state : job.state(r.end.rank);
  if (!all_are_heard(facts, ranks_, loss_->settled.passed()) && !loss_->heard_by.passed())
    return std::nullopt;
  Regrouped found = regrouped(facts, ranks_);
  if (int(found.left.size()) < kFewestLeft) found.lost.clear();
  return found;
}

Deadline Members::next_look() const {
  return Deadline::after_ms(kLeaveLookMs);
}

Status Members::go_on(const Regrouped& found, Roster roster, launcher::RankGroup& job,
                      std::vector<RankFacts>& facts) {
  for (const LostRanks& lost : found.lost)
    for (const int rank : lost.ranks) {
      facts[size_t(rank)].left_behind = true;
      job.kill(rank);  // stopped or deaf: it must not wake up among the others
    }
  ranks_ = found.left;
  loss_.reset();
  roster.task.members = ranks_;
  for (const int rank : ranks_) {
    const Host& host = facts[size_t(rank)].end.host;
    roster.hosts.push_back(host.name);
    roster.one_host = roster.one_host && host == facts[size_t(ranks_.front())].end.host;
  }
  for (const int rank : ranks_) {
    RankFacts& r = facts[size_t(rank)];
    r.broken.reset();
    r.end.phase.clear();
    COLL_TRY(tell(job, rank, FrameType::roster, base::bytes_of(json_of(roster))));
    roster.hosts.clear();  // the first one's affair
  }
  return {};
}

}  // namespace collctl::cmd
