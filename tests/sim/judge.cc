#include "tests/sim/judge.h"

#include <algorithm>

#include "base/format.h"
#include "tests/sim/hosts.h"

namespace collctl::sim {
namespace {

// From the last word of a job to its outcome: what others say after the first failure, the answer
// of an agent that is deaf, its farewell.
constexpr double kSettle = 1.5, kDeaf = 2, kFarewell = 2;
// Agents kill what does not end, when nobody is left to tell them.
constexpr double kKill = 1;
constexpr double kForever = 1e9;

// When the job may end for one fault, and must have ended.
struct Effect {
  bool may_pass = true;    // the job may go well all the same
  double by_s = kForever;  // else it has failed by then
};

double round_trip(const Plan& plan) {
  return 4 * plan.latency_ms / 1e3 + 0.3;
}

// A host from which nothing is heard any more, or which hears nothing.
double missed_s(const Plan& plan) {
  return plan.heartbeat_s + 0.3 + round_trip(plan);
}

Effect effect_of(const Plan& plan, const Fault& fault) {
  const double lasts = fault.lasts_s > 0 ? fault.lasts_s : kForever;
  const double rtt = round_trip(plan);
  // Whatever hangs before the ranks work is found by the end of the start.
  const double start_by = plan.start_timeout_s + 1.5 + rtt;
  const auto later = [&](double after_s) { return std::max(fault.at_s + after_s, start_by); };
  switch (fault.kind) {
    case FaultKind::kill_rank:
    case FaultKind::kill_agent:
      return {true, fault.at_s + rtt};
    case FaultKind::stop_rank:
      return {lasts < plan.op_timeout_s + rtt, later(plan.op_timeout_s + rtt)};
    case FaultKind::stop_agent:
    case FaultKind::cut_host:
    case FaultKind::deaf_host:
    case FaultKind::mute_host:
      return {true, later(missed_s(plan))};
    case FaultKind::cut_way:
      return {true, later(plan.op_timeout_s + rtt)};
    case FaultKind::stop_launcher:
      return {true, fault.at_s + lasts + missed_s(plan)};
    case FaultKind::slow_host:
      return {true, start_by};
    case FaultKind::interrupt:
      return {false, fault.at_s + rtt};
    case FaultKind::kill_launcher:
    case FaultKind::suspend:
    case FaultKind::repeat:
      return {true, kForever};
  }
  return {};
}

bool is_of(const Plan& plan, const Error& error, int host) {
  const bool named = error.host == Hosts::name(host);
  return named ||
         (error.rank >= 0 && error.rank < plan.ranks() && plan.host_of(error.rank) == host);
}

// The outcome is what this fault may lead to.
bool explains(const Plan& plan, const Fault& fault, const cmd::JobOutcome& outcome) {
  const Error& e = *outcome.error;
  const bool lost = e.code == ErrorCode::lost, late = e.code == ErrorCode::deadline;
  const bool start = e.code == ErrorCode::launch || late;
  switch (fault.kind) {
    case FaultKind::kill_rank:
      return lost && e.rank == fault.what;
    case FaultKind::stop_rank:
      return late && e.rank == fault.what;
    case FaultKind::kill_agent:
    case FaultKind::cut_host:
    case FaultKind::mute_host:
    case FaultKind::deaf_host:
    case FaultKind::stop_agent:
      return (lost || start) && is_of(plan, e, fault.what);
    case FaultKind::cut_way:
      return (lost || late || e.code == ErrorCode::launch) &&
             (is_of(plan, e, fault.what) || is_of(plan, e, fault.other));
    case FaultKind::slow_host:
      return start && is_of(plan, e, fault.what);
    case FaultKind::stop_launcher:
      return (lost || start) && e.message.find("collctl itself did not run") != std::string::npos;
    case FaultKind::interrupt:
      return e.code == ErrorCode::interrupted;
    case FaultKind::repeat:
      return (lost || start) && is_of(plan, e, fault.what);
    case FaultKind::kill_launcher:
    case FaultKind::suspend:
      return false;
  }
  return false;
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
  expect(ran.agents_left == 0, format("{} agents stay", ran.agents_left));
  expect(ran.ranks_left == 0, format("{} ranks stay", ran.ranks_left));
  std::vector<const Fault*> happened;
  for (const int index : ran.happened) happened.push_back(&plan.faults[size_t(index)]);
  const auto any = [&](const auto& is) {
    return std::any_of(happened.begin(), happened.end(), [&](const Fault* f) { return is(*f); });
  };
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
  } else {
    expect(outcome.error.has_value(), format("code {} without an error", outcome.exit_code));
    expect(!outcome.error || any([&](const Fault& f) { return explains(plan, f, outcome); }),
           "nothing that happened explains " + words(outcome));
  }
  // The first that the job cannot survive sets the time.
  double by_s = kForever, away_s = 0;
  for (const Fault* f : happened) {
    by_s = std::min(by_s, effect_of(plan, *f).by_s);
    if (f->kind == FaultKind::stop_launcher || f->kind == FaultKind::suspend) away_s += f->lasts_s;
  }
  const double limit = by_s + away_s + kSettle + kDeaf + kFarewell + plan.grace_s;
  expect(outcome.exit_code == 0 || ran.ended_s < limit,
         format("the job ended after {:.2f} s, where {:.2f} are promised: {}", ran.ended_s, limit,
                words(outcome)));
  const double gone = ran.ended_s + plan.heartbeat_s + plan.grace_s + kKill + round_trip(plan);
  double held_s = 0;
  for (const Fault& f : plan.faults)
    held_s += f.kind == FaultKind::stop_agent && f.lasts_s == 0 ? kContinued : f.lasts_s;
  expect(ran.gone_s < gone + held_s,
         format("the last process was gone after {:.2f} s, where {:.2f} are promised", ran.gone_s,
                gone + held_s));
  return wrong;
}

}  // namespace collctl::sim
