#include "cmd/job/root_cause.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/format.h"
#include "base/peer_closed.h"

namespace collctl::cmd {
namespace {

constexpr size_t kMostWays = 8;  // broken ways told one by one

Error death_error(const std::vector<RankFacts>& ranks, const RankFacts& first) {
  const RankEnd& end = first.end;
  std::vector<int> others;
  for (const RankFacts& r : ranks)
    if (died(r) && &r != &first) others.push_back(r.end.rank);
  Error e(end.exit_code == int(ErrorCode::defect) ? ErrorCode::defect : ErrorCode::lost,
          death_words(first));
  if (!others.empty()) e.message += format("; so did {}", rank_list(ranks, others));
  e.hint = death_hint(end);
  e.rank = end.rank;
  e.on(end.host);
  return e;
}

bool failed(const RankFacts& r) {
  return r.end.error.has_value() || died(r);
}

// It only tells what another rank found, which says so itself ("rank 3 aborted: ...").
bool is_quote(const std::vector<RankFacts>& ranks, const RankFacts& r) {
  const int from = r.end.error->from;
  if (from < 0 || from == r.end.rank) return false;
  const RankFacts* other = find(ranks, from);
  return other != nullptr && other->end.error.has_value();
}

// Connections break and waits fail where another rank has a reason.
bool only_follows(const Error& e) {
  return e.code == ErrorCode::lost || e.code == ErrorCode::deadline;
}

// The error only repeats what happened to another rank, which tells its own story.
bool is_echo(const std::vector<RankFacts>& ranks, const RankFacts& r) {
  const Error& e = *r.end.error;
  // Its own reason stays its own, also where another was first to tell it.
  const bool own = e.rank == r.end.rank && !only_follows(e);
  if (own) return false;
  if (is_quote(ranks, r)) return true;
  if (e.rank < 0 || e.rank == r.end.rank) return false;
  const RankFacts* blamed = find(ranks, e.rank);
  if (blamed == nullptr || !failed(*blamed)) return false;
  // Two that blame each other: who only lost the connection lost it because of the other's reason,
  // whoever was heard first.
  const bool answers = blamed->end.error && blamed->end.error->rank == r.end.rank &&
                       base::only_says_closed(*blamed->end.error);
  return !answers || base::only_says_closed(e);
}

// It lost a rank that had waited for its time and then left.
bool lost_a_waiter(const std::vector<RankFacts>& ranks, const RankFacts& r) {
  const Error& e = *r.end.error;
  if (e.code != ErrorCode::lost || e.rank < 0 || e.rank == r.end.rank) return false;
  const RankFacts* blamed = find(ranks, e.rank);
  return blamed != nullptr && blamed->end.error && blamed->end.error->code == ErrorCode::deadline;
}

// Errors worth being the root, worst first.
std::vector<const RankFacts*> candidates(const std::vector<RankFacts>& ranks) {
  std::vector<const RankFacts*> all, own;
  int first_own_cause = -1;  // order of the first error that no broken connection explains
  for (const RankFacts& r : ranks) {
    if (!r.end.error) continue;
    all.push_back(&r);
    if (is_echo(ranks, r)) continue;
    own.push_back(&r);
    if (!only_follows(*r.end.error) && (first_own_cause < 0 || r.order < first_own_cause))
      first_own_cause = r.order;
  }
  // Connections break and waits fail after a rank has aborted for a reason of its own. It may be
  // heard of later than a connection that broke without anybody to blame.
  if (first_own_cause >= 0)
    std::erase_if(own, [&](const RankFacts* r) {
      const Error& e = *r->end.error;
      return (r->order > first_own_cause && only_follows(e)) ||
             (e.code == ErrorCode::lost && e.rank < 0);
    });
  // Ranks that blame each other in a circle: then all of them, but no quotes if it can be, and none
  // who is only in the circle because another's wait was over first, nor whose connection only
  // ended because somebody left.
  if (own.empty()) {
    for (const RankFacts* r : all)
      if (!is_quote(ranks, *r) && !lost_a_waiter(ranks, *r)) own.push_back(r);
    const auto closed = [](const RankFacts* r) { return base::only_says_closed(*r->end.error); };
    if (!std::ranges::all_of(own, closed)) std::erase_if(own, closed);
  }
  std::vector<const RankFacts*>& list = own.empty() ? all : own;
  std::ranges::sort(list, [](const RankFacts* a, const RankFacts* b) {
    const int sa = base::severity(a->end.error->code), sb = base::severity(b->end.error->code);
    if (sa != sb) return sa > sb;
    return a->order < b->order;
  });
  return list;
}

// Nothing explains by itself why it is silent: it neither ended nor complained.
bool silent(const RankFacts& r) {
  return (!r.exited || r.end.ended_by_us) && !r.end.error;
}

bool mute_host(const RankFacts& r) {
  return silent(r) && r.state == '?';
}

using Waiters = std::map<int, std::vector<int>>;  // waited for -> who waits

// The path between r and another rank is broken, as far as r knows. If r did connect and the other
// rank's host is silent too, that host is rather at fault.
bool says_way(const std::vector<RankFacts>& ranks, const RankFacts& r) {
  if (!r.end.error || !base::says_broken_way(*r.end.error) || is_quote(ranks, r)) return false;
  const RankFacts* to = find(ranks, r.end.error->rank);
  return base::says_cannot_connect(*r.end.error) || to == nullptr || !silent(*to) ||
         to->state != '?';
}

// The rank that r waited for: by its own error, or when it heard of another's.
int waited_for(const std::vector<RankFacts>& ranks, const RankFacts& r) {
  if (!r.end.error || !only_follows(*r.end.error)) return -1;
  const Error& e = *r.end.error;
  const bool own = e.code == ErrorCode::deadline && !is_quote(ranks, r) && !says_way(ranks, r);
  const int rank = own ? e.rank : e.awaited;
  return rank == r.end.rank ? -1 : rank;
}

Waiters waiters_of(const std::vector<RankFacts>& ranks) {
  Waiters waiters;
  for (const RankFacts& r : ranks)
    if (const int rank = waited_for(ranks, r); rank >= 0) waiters[rank].push_back(r.end.rank);
  return waiters;
}

// "ranks 0-3 (host a) wait for rank 4 (host b); ..."
std::string waits_text(const std::vector<RankFacts>& ranks, const Waiters& waiters) {
  std::string text;
  for (const auto& [target, who] : waiters)
    text += format("{}{} {} for {}", text.empty() ? "" : "; ", rank_list(ranks, who),
                   who.size() == 1 ? "waits" : "wait", rank_list(ranks, {target}));
  return text;
}

// With the other end's host, which a rank that could not even check in does not know.
std::string way_text(const std::vector<RankFacts>& ranks, const RankFacts& r) {
  std::string text = r.end.error->message;
  const RankFacts* to = find(ranks, r.end.error->rank);
  const std::string name = format("cannot connect to rank {}", r.end.error->rank);
  const size_t at = text.find(name + ":");
  if (to != nullptr && at != std::string::npos)
    text.insert(at + name.size(), format(" (host {})", to->end.host));
  return text;
}

// Ranks that had no answer from others, or no longer: what is broken lies between the two, and who
// waits further up the chain waits for that.
std::optional<Error> broken_way(const std::vector<RankFacts>& ranks) {
  std::vector<const RankFacts*> ways;
  for (const RankFacts& r : ranks)
    if (says_way(ranks, r)) ways.push_back(&r);
  if (ways.empty()) return std::nullopt;
  std::ranges::sort(ways,
                    [](const RankFacts* a, const RankFacts* b) { return a->order < b->order; });
  Error e = *ways.front()->end.error;
  e.message = way_text(ranks, *ways.front());
  for (size_t i = 1; i < std::min(ways.size(), kMostWays); ++i)
    e.message += "; " + way_text(ranks, *ways[i]);
  if (const RankFacts* to = find(ranks, e.rank); to != nullptr && e.host.empty())
    e.on(to->end.host);
  if (ways.size() > kMostWays)
    e.message += format("; and {} more such ranks", ways.size() - kMostWays);
  if (const std::string waits = waits_text(ranks, waiters_of(ranks)); !waits.empty())
    e.message += "; " + waits;
  return e;
}

// Where the waits lead that begin at the speaker.
ChainEnd awaited_last(const Waiters& waiters, const RankFacts& speaker) {
  std::map<int, int> targets;  // who -> for whom
  for (const auto& [target, who] : waiters)
    for (const int rank : who) targets[rank] = target;
  return end_of_chain(targets, speaker.end.rank);
}

// Nothing: nobody is known to wait for anybody, and every host has said how its ranks are.
std::optional<Error> deadline_error(const std::vector<RankFacts>& ranks, const RankFacts& speaker) {
  const Waiters waiters = waiters_of(ranks);
  const ChainEnd last = awaited_last(waiters, speaker);
  const RankFacts* const end = last.circle ? nullptr : find(ranks, last.rank);
  // A rank that complains itself is not what the others wait for in the end: rather a host that was
  // asked for its ranks and is mute.
  const bool unexplained = end != nullptr && end->end.error.has_value();
  const auto mute = std::ranges::find_if(ranks, mute_host);
  Error e = *speaker.end.error;
  std::string culprits;
  int culprit = -1;
  for (const RankFacts& r : ranks) {
    const bool waited_for = waiters.count(r.end.rank) != 0;
    const bool first_mute = unexplained && mute != ranks.end() && &r == &*mute;
    if (!silent(r) || (!waited_for && !first_mute && !notable_state(r.state))) continue;
    if (culprit < 0) culprit = r.end.rank;
    culprits += format("{}{} does not move: {}", culprits.empty() ? "" : "; ", person(r),
                       state_words(r.state));
  }
  const std::string waits = waits_text(ranks, waiters);
  if (culprits.empty() && waits.empty()) return std::nullopt;
  e.message =
      format("{}{}{}; rank {} says: {}", culprits, culprits.empty() || waits.empty() ? "" : "; ",
             waits, speaker.end.rank, e.chain());
  e.contexts.clear();
  if (culprit < 0) {
    if (last.circle) {  // nobody of them is at fault
      e.rank = -1;
      e.on({});
      e.hint =
          "they wait for each other: what one has sent is lost on the way (collctl doctor -H tries "
          "all ways), or they are in different calls";
    } else if (end != nullptr && end != &speaker) {
      e.rank = last.rank;
      e.on(end->end.host);
    }
  } else {
    e.rank = culprit;
    const RankFacts& r = *find(ranks, culprit);
    e.on(r.end.host);
    if (const std::string hint = stuck_hint(r); !hint.empty()) e.hint = hint;
  }
  return e;
}

}  // namespace

ChainEnd end_of_chain(const std::map<int, int>& waits, int rank) {
  std::set<int> seen;
  for (auto on = waits.find(rank); on != waits.end(); on = waits.find(rank)) {
    if (!seen.insert(rank).second) {
      // Once round: its members by the lowest.
      int lowest = rank;
      for (int member = on->second; member != rank; member = waits.at(member))
        lowest = std::min(lowest, member);
      return {lowest, true};
    }
    rank = on->second;
  }
  return {rank, false};
}

std::optional<Error> root_cause(const std::vector<RankFacts>& ranks) {
  const std::vector<const RankFacts*> errors = candidates(ranks);
  // A rank's own reason of a kind worse than a death (wrong data, a defect) stays the reason.
  const bool worse = !errors.empty() && base::severity(errors.front()->end.error->code) >
                                            base::severity(ErrorCode::lost);
  // A host that was only cut off names in its error the one at fault, whose own ranks know more.
  if (!worse)
    for (const bool own : {true, false})
      for (const RankFacts& r : ranks)
        if (r.host_lost && (!own || r.end.error->host_id == r.end.host.id)) return r.end.error;
  if (!worse)
    for (const RankFacts& r : ranks)
      if (died(r)) return death_error(ranks, r);
  if (errors.empty()) return std::nullopt;
  const RankFacts& chosen = *errors.front();
  const ErrorCode kind = chosen.end.error->code;
  if (kind == ErrorCode::lost || kind == ErrorCode::deadline)
    if (auto way = broken_way(ranks)) return way;
  const auto waits =
      kind == ErrorCode::deadline ? deadline_error(ranks, chosen) : std::optional<Error>();
  const bool as_said = !waits;
  Error e = waits.value_or(*chosen.end.error);
  // The error, unless deadline_error() made it, is one rank's: name that rank. An error that is
  // another rank's own reason, and says so, stays as it is.
  const bool of_other = !only_follows(e) && e.rank >= 0 && e.rank != chosen.end.rank &&
                        e.has_said(format("rank {} (host ", e.rank));
  if (as_said && !of_other) e.within(rank_list(ranks, {chosen.end.rank}));
  if (!as_said && e.rank < 0) return e;  // nobody is at fault
  if (e.rank < 0) e.rank = chosen.end.rank;
  if (e.host.empty()) e.on(chosen.end.host);
  return e;
}

}  // namespace collctl::cmd
