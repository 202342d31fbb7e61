#include "tests/sim/judge.h"

#include <algorithm>
#include <set>

#include "base/format.h"
#include "tests/sim/hosts.h"

namespace collctl::sim {
namespace {

// From the last word of a job to its outcome: what others send after the first failure, the answer
// of an agent that is deaf, its farewell.
constexpr double kSettle = 1.5, kDeaf = 2, kFarewell = 2;
// Agents kill what does not end, when nobody is left to order it.
constexpr double kKill = 1;
// So long an agent waits for its first word, whatever the job's heartbeat is; it is sent with the
// launcher's next beat, a login later.
constexpr double kFirstWord = 15, kFirstBeat = 1, kLogin = 0.1;

double round_trip(const Plan& plan) {
  return 4 * plan.latency_ms / 1e3 + 0.3;
}

// A host from which nothing is heard any more, or which hears nothing.
double missed_s(const Plan& plan) {
  return plan.heartbeat_s + 0.3 + round_trip(plan);
}

// Stopped for good when the work is done, or with all others: nobody waits for it but the launcher,
// for the job's time.
bool stays_unnoticed(const Plan& plan, const Fault& fault) {
  if (fault.kind != FaultKind::stop_rank || fault.lasts_s > 0) return false;
  std::set<int> stopped;
  for (const Fault& f : plan.faults)
    if (f.kind == FaultKind::stop_rank && f.lasts_s == 0) stopped.insert(f.what);
  return fault.at_s >= plan.works_s || int(stopped.size()) == plan.ranks();
}

// By when the job has noticed this fault, or it is over and nothing came of it.
double noticed_by(const Plan& plan, const Fault& fault) {
  const double rtt = round_trip(plan);
  // A hang before the ranks work is found by the end of the start.
  const double start_by = plan.start_timeout_s + 1.5 + rtt;
  const auto later = [&](double after_s) { return std::max(fault.at_s + after_s, start_by); };
  switch (fault.kind) {
    case FaultKind::kill_rank:
    case FaultKind::kill_agent:
    case FaultKind::interrupt:
      return fault.at_s + rtt;
    case FaultKind::stop_rank:
      if (stays_unnoticed(plan, fault)) return plan.timeout_s + 1 + rtt;
      [[fallthrough]];
    case FaultKind::cut_way:
      return later(plan.op_timeout_s + rtt);
    case FaultKind::stop_agent:
    case FaultKind::cut_host:
    case FaultKind::deaf_host:
    case FaultKind::mute_host:
      return later(missed_s(plan));
    case FaultKind::stop_launcher:
    case FaultKind::suspend:  // the silence of others begins anew
      return fault.at_s + fault.lasts_s + missed_s(plan);
    case FaultKind::slow_host:
      return start_by;
    case FaultKind::kill_launcher:
    case FaultKind::repeat:
      return fault.at_s;
  }
  return 0;
}

// The carrier may pass on what the host sends: of one of the groups that HostPool makes, it comes
// first. Which of those before it do carry it depends on who came up.
bool may_carry(const Plan& plan, int carrier, int host) {
  const int count = std::min(plan.hosts, plan.tree_width);
  for (int i = 0; i < count; ++i) {
    const int first = plan.hosts * i / count, end = plan.hosts * (i + 1) / count;
    if (first <= carrier && host < end) return carrier < host && carrier < end;
  }
  return false;
}

// Named by the error, or in the list of hosts that did not come up, or did not start their ranks.
bool is_of(const Plan& plan, const Error& error, int host) {
  const std::string name = Hosts::name(host);
  const bool silent = error.code == ErrorCode::deadline &&
                      error.message.find("did not start their ranks in time") != std::string::npos;
  const bool listed = error.host.empty() && (error.code == ErrorCode::launch || silent) &&
                      error.message.find(name) != std::string::npos;
  return error.host == name || listed ||
         (error.rank >= 0 && error.rank < plan.ranks() && plan.host_of(error.rank) == host);
}

// Whether the error is of a host that this one may carry.
bool is_behind(const Plan& plan, const Error& error, int carrier) {
  for (int host = 0; host < plan.hosts; ++host)
    if (may_carry(plan, carrier, host) && is_of(plan, error, host)) return true;
  return false;
}

// It held up the others until their time was over, and was over itself before all had said so: then
// who was held up last says, as the others do, that it waits, and nobody is at fault.
bool went_over(const Plan& plan, const Fault& fault, double ended_s) {
  double from_s = fault.at_s;  // others that overlap began the wait
  for (const Fault& f : plan.faults)
    if (f.lasts_s > 0 && f.at_s < from_s && f.at_s + f.lasts_s >= fault.at_s) from_s = f.at_s;
  const double patience = std::min(plan.op_timeout_s, plan.start_timeout_s - from_s);
  double away_s = 0;  // the launcher, which hears of it later
  for (const Fault& f : plan.faults)
    if (f.kind == FaultKind::stop_launcher || f.kind == FaultKind::suspend) away_s += f.lasts_s;
  const double over_s = fault.at_s + fault.lasts_s;
  return fault.lasts_s > 0 && over_s - from_s >= patience - 0.1 && over_s <= ended_s &&
         over_s >= ended_s - away_s - kSettle - kDeaf - kFarewell - round_trip(plan);
}

// The outcome is what this fault may lead to.
bool explains(const Plan& plan, const Fault& fault, const Ran& ran) {
  const Error& e = *ran.outcome->error;
  const bool lost = e.code == ErrorCode::lost, late = e.code == ErrorCode::deadline;
  const bool start = e.code == ErrorCode::launch || late;
  const bool nobody = late && e.rank < 0 && e.host.empty() &&
                      e.message.find("did not start up within") != std::string::npos;
  const bool circle = late && e.rank < 0 && e.host.empty();
  // Ids that nobody passes on: the ranks wait for each other until their start is over.
  const bool starts = std::any_of(ran.phases.begin(), ran.phases.end(), [](const auto& phase) {
    return phase.empty() || phase == "bootstrap";
  });
  const bool not_passed_on =
      circle && starts && fault.at_s < plan.start_timeout_s &&
      (fault.lasts_s == 0 || fault.at_s + fault.lasts_s >= plan.start_timeout_s - 0.1);
  // One end of a way that is broken, where there is but one way: the other end may be at fault.
  const bool only_way = plan.hosts == 2 && e.rank >= 0 && e.has_said("cannot reach rank");
  // A host that was stopped as the job was, cut off meanwhile, and did not know either.
  const bool as_seen = std::any_of(ran.happened.begin(), ran.happened.end(),
                                   [&](int index) {
                                     return plan.faults[size_t(index)].kind == FaultKind::suspend;
                                   }) &&
                       e.has_said("(as " + Hosts::name(fault.what) + " sees it)");
  const bool whole = circle && e.message.find("(--timeout)") != std::string::npos;
  switch (fault.kind) {
    case FaultKind::kill_rank:
      return lost && e.rank == fault.what;
    case FaultKind::stop_rank:
      return (late && e.rank == fault.what) ||
             (circle && !whole && went_over(plan, fault, ran.ended_s)) ||
             ((whole || nobody) && stays_unnoticed(plan, fault) &&
              e.message.find("stopped (state T)") != std::string::npos);
    case FaultKind::cut_host:
    case FaultKind::deaf_host:
      if (not_passed_on) return true;
      [[fallthrough]];
    case FaultKind::kill_agent:
    case FaultKind::mute_host:
    case FaultKind::stop_agent:
      // A host that is reached through it, and named as such.
      return nobody || only_way || as_seen ||
             ((lost || start) &&
              (is_of(plan, e, fault.what) ||
               (is_behind(plan, e, fault.what) &&
                e.message.find(Hosts::name(fault.what) + ", through which") != std::string::npos)));
    case FaultKind::cut_way:
      return ((lost || late || e.code == ErrorCode::launch) &&
              (is_of(plan, e, fault.what) || is_of(plan, e, fault.other))) ||
             (circle && went_over(plan, fault, ran.ended_s));
    case FaultKind::slow_host:
      return start && is_of(plan, e, fault.what);
    case FaultKind::stop_launcher:
      return ((lost || start) &&
              e.message.find("collctl itself did not run") != std::string::npos) ||
             not_passed_on;
    case FaultKind::interrupt:
      return e.code == ErrorCode::interrupted;
    case FaultKind::repeat:  // no agent of ours does
      return (lost || start || e.code == ErrorCode::defect) &&
             (is_of(plan, e, fault.what) || is_behind(plan, e, fault.what));
    case FaultKind::suspend:
      return not_passed_on;
    case FaultKind::kill_launcher:
      return false;
  }
  return false;
}

// The fault may cost the others this rank.
bool loses(const Plan& plan, const Fault& fault, int rank) {
  switch (fault.kind) {
    case FaultKind::kill_rank:
    case FaultKind::stop_rank:
      return fault.what == rank;
    case FaultKind::kill_agent:
    case FaultKind::stop_agent:
    case FaultKind::cut_host:
    case FaultKind::deaf_host:
    case FaultKind::mute_host:
    case FaultKind::repeat:
      // In a tree, others with it.
      return plan.tree_width > 0 || fault.what == plan.host_of(rank);
    case FaultKind::stop_launcher:
      return true;  // hosts have waited as long as they do
    case FaultKind::cut_way: {
      // Between a carrier and whom it carries: those behind are gone with it.
      const auto [first, second] = std::minmax(fault.what, fault.other);
      return may_carry(plan, first, second) && plan.host_of(rank) >= second &&
             may_carry(plan, first, plan.host_of(rank));
    }
    default:
      return false;
  }
}

std::string words(const cmd::JobOutcome& outcome) {
  if (!outcome.error) return format("code {}", outcome.exit_code);
  return format("code {}, rank {}, host '{}': {}", outcome.exit_code, outcome.error->rank,
                outcome.error->host, outcome.error->chain());
}

}  // namespace

std::vector<std::string> judged(const Plan& plan, const Ran& ran) {
  std::vector<std::string> wrong;
  const auto expect = [&](bool holds, const std::string& what) {
    if (!holds) wrong.push_back(what);
  };
  expect(!ran.spins, "somebody goes on and on without waiting");
  std::vector<const Fault*> happened;
  for (const int index : ran.happened) happened.push_back(&plan.faults[size_t(index)]);
  const auto any = [&](const auto& is) {
    return std::any_of(happened.begin(), happened.end(), [&](const Fault* f) { return is(*f); });
  };
  // Agents were told to wait for a day (Ctrl-Z), and do not hear otherwise any more.
  const bool may_stay =
      any([](const Fault& f) { return f.kind == FaultKind::suspend; }) && any([](const Fault& f) {
        return f.kind == FaultKind::cut_host || f.kind == FaultKind::deaf_host;
      });
  expect(ran.agents_left == 0 || may_stay, format("{} agents stay", ran.agents_left));
  expect(ran.ranks_left == 0 || may_stay, format("{} ranks stay", ran.ranks_left));
  const bool killed = any([](const Fault& f) { return f.kind == FaultKind::kill_launcher; });
  if (!ran.outcome) {
    expect(killed, "the job never ends");
    return wrong;
  }
  const cmd::JobOutcome& outcome = *ran.outcome;
  if (outcome.exit_code == 0) {
    for (size_t rank = 0; rank < ran.phases.size(); ++rank)
      expect(plan.shrink || ran.phases[rank] == "done",
             format("code 0, but rank {} is in phase '{}'", rank, ran.phases[rank]));
    for (const cmd::Shrunk& loss : ran.shrunk)
      for (const cmd::LostRanks& lost : loss.lost)
        for (const int rank : lost.ranks)
          expect(
              any([&](const Fault& f) { return loses(plan, f, rank); }),
              format("rank {} was left out, and nothing has happened to it: {}", rank, lost.why));
  } else {
    expect(outcome.error.has_value(), format("code {} without an error", outcome.exit_code));
    expect(!outcome.error || any([&](const Fault& f) { return explains(plan, f, ran); }),
           "nothing that happened explains " + words(outcome));
  }
  // Each fault has its time, and what is well has its own.
  double by_s = plan.works_s + round_trip(plan), held_s = 0;
  // Those that are left start once more, and work for as long as all should have.
  const double again_s =
      double(ran.shrunk.size()) * (plan.start_timeout_s + plan.works_s + round_trip(plan));
  for (const Fault& f : plan.faults) {
    by_s = std::max(by_s, noticed_by(plan, f));
    held_s += f.kind == FaultKind::stop_agent && f.lasts_s == 0 ? kContinued : f.lasts_s;
  }
  const double limit = by_s + again_s + held_s + kSettle + kDeaf + kFarewell + plan.grace_s;
  expect(ran.ended_s < limit, format("the job ended after {:.2f} s, where {:.2f} are promised: {}",
                                     ran.ended_s, limit, words(outcome)));
  double gone = ran.ended_s + held_s + plan.heartbeat_s + plan.grace_s + kKill + round_trip(plan);
  // An agent that is stopped begins to wait anew when it is continued, after the job.
  const bool stopped_for_good =
      any([](const Fault& f) { return f.kind == FaultKind::stop_agent && f.lasts_s == 0; });
  // Nothing reaches an agent any more that has not had its first word.
  const double first_word_by = held_s + 2 * (kLogin + round_trip(plan)) + kFirstBeat;
  for (const Fault* f : happened)
    if ((f->kind == FaultKind::cut_host || f->kind == FaultKind::deaf_host ||
         (f->kind == FaultKind::cut_way && plan.tree_width > 0)) &&
        f->at_s < first_word_by)
      gone = std::max(gone, (stopped_for_good ? ran.ended_s : f->at_s) + held_s + kFirstWord +
                                kKill + round_trip(plan));
  expect(ran.gone_s < gone || may_stay,
         format("the last process was gone after {:.2f} s, where {:.2f} are promised", ran.gone_s,
                gone));
  return wrong;
}

}  // namespace collctl::sim
