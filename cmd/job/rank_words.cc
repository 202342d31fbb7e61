#include "cmd/job/rank_words.h"

#include <signal.h>

#include <algorithm>
#include <map>

#include "base/format.h"
#include "base/host_limits.h"
#include "base/number_ranges.h"
#include "cmd/job/interrupt.h"
#include "cmd/text/sizes.h"

namespace collctl::cmd {
namespace {

constexpr size_t kMostHosts = 64;  // in a list of ranks

std::string phase_words(const std::string& phase) {
  return phase.empty() ? std::string("before its first phase") : "in phase " + phase;
}

}  // namespace

const RankFacts* find(const std::vector<RankFacts>& ranks, int rank) {
  for (const RankFacts& r : ranks)
    if (r.end.rank == rank) return &r;
  return nullptr;
}

std::string person(const RankFacts& r) {
  return format("rank {} (pid {}, host {})", r.end.rank, r.end.pid, r.end.host);
}

std::string death_hint(const RankEnd& end) {
  switch (end.exit_signal) {
    case SIGKILL:
      if (end.starved_at != 0) return starved_hint(end.starved_at);
      return "killed by hand, or by the kernel for lack of memory (look for 'Out of memory' in the "
             "kernel's log)";
    case SIGSEGV:
    case SIGBUS:
    case SIGILL:
    case SIGFPE:
    case SIGABRT:
      return "a crash: please report it with the command line and the log of -v";
    default:
      return {};
  }
}

std::string death_words(const RankFacts& r) {
  const RankEnd& end = r.end;
  if (end.exit_signal != 0)
    return format("{} was killed by signal {} ({}) {}", person(r), end.exit_signal,
                  signal_name(end.exit_signal), phase_words(end.phase));
  return format("{} ended with exit code {} and without a word {}", person(r), end.exit_code,
                phase_words(end.phase));
}

std::string stuck_hint(const RankFacts& r) {
  if (r.state == 'T')
    return format("continue it (kill -CONT {}), or find out who stopped it", r.end.pid);
  if (r.state == 'D')
    return format("process {} hangs in the kernel (disk, network file system, driver)", r.end.pid);
  if (r.state == '?')
    return format("look at host {} and the network to it (cable, link, firewall)", r.end.host);
  return {};
}

bool notable_state(char state) {
  return state != 'R' && state != 'S' && state != '?';
}

bool started(const std::string& phase) {
  return !phase.empty() && phase != "bootstrap" && phase != "connect";
}

std::string starved_hint(uint64_t limit) {
  return limit == base::kUnlimited
             ? std::string(
                   "the kernel killed it for lack of memory on its host: use less, or fewer "
                   "ranks on a host")
             : format(
                   "the kernel killed it for lack of memory: its control group (container, job) "
                   "may use {} in all; raise that limit, or use less",
                   human_bytes(limit));
}

bool died(const RankFacts& r) {
  if (!r.exited || r.end.ended_by_us || r.end.error) return false;
  return r.end.exit_signal != 0 || r.end.exit_code != 0 || r.end.phase != "done";
}

LostRanks why_lost(const RankFacts& r) {
  LostRanks lost{{r.end.rank}, r.end.host, death_words(r), death_hint(r.end)};
  if (r.host_lost) {
    lost.why = r.end.error->message;
    lost.remedy = r.end.error->hint;
    if (lost.remedy.empty())
      lost.remedy = format("look at host {} and the network to it (cable, link, firewall)",
                           r.end.error->host.empty() ? r.end.host.name : r.end.error->host);
  } else if (!r.exited) {
    lost.why = format("{} does not move: {}", person(r), state_words(r.state));
    lost.remedy = stuck_hint(r);
  }
  return lost;
}

std::string state_words(char state) {
  switch (state) {
    case 0:
    case 'X':
    case 'Z':
      return "gone";
    case 'T':
      return "stopped (state T)";
    case 't':
      return "held by a debugger (state t)";
    case 'D':
      return "in an uninterruptible wait of the kernel (state D)";
    case '?':
      return "its host has not said in what state it is";
    case 'R':
      return "running, but without progress";
    default:
      return format("alive (state {}), but without progress", state);
  }
}

std::string rank_list(const std::vector<RankFacts>& all, const std::vector<int>& ranks) {
  const bool one_host = std::ranges::all_of(
      all, [&](const RankFacts& r) { return r.end.host == all.front().end.host; });
  std::vector<std::pair<Host, std::vector<int>>> hosts;  // in the order of their ranks
  for (const int rank : ranks) {
    const RankFacts* facts = one_host ? nullptr : find(all, rank);
    const Host host = facts == nullptr ? Host() : facts->end.host;
    if (hosts.empty() || hosts.back().first != host) hosts.push_back({host, {}});
    hosts.back().second.push_back(rank);
  }
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < hosts.size() && i < kMostHosts; ++i) {
    text += (i == 0 ? "" : ", ") + base::number_ranges(hosts[i].second, ", ");
    if (hosts[i].first.named()) text += format(" (host {})", hosts[i].first);
  }
  if (hosts.size() > kMostHosts) text += ", ...";
  return text;
}

std::string where_they_are(const std::vector<RankFacts>& ranks) {
  std::map<std::string, std::vector<int>> places;
  for (const RankFacts& r : ranks) {
    if (r.exited) continue;
    const std::string state = notable_state(r.state) ? state_words(r.state) + " " : "";
    places[state + phase_words(r.end.phase)].push_back(r.end.rank);
  }
  std::string text;
  for (const auto& [place, who] : places)
    text += format("{}{} {}", text.empty() ? "" : "; ", rank_list(ranks, who), place);
  return text.empty() ? "all ranks have ended" : text;
}

Error late_as_a_whole(const std::vector<RankFacts>& ranks, std::string what,
                      const std::string& waits) {
  what += where_they_are(ranks) + (waits.empty() ? "" : "; " + waits);
  Error e(ErrorCode::deadline, std::move(what));
  const auto stopped = [](const RankFacts& r) { return !r.exited && r.state == 'T'; };
  const auto first = std::ranges::find_if(ranks, stopped);
  if (first == ranks.end()) {
    const auto mute =
        std::ranges::find_if(ranks, [](const RankFacts& r) { return !r.exited && r.state == '?'; });
    if (mute == ranks.end()) return e;
    e.message += format("; host {} has not said how its ranks are", mute->end.host);
    e.hint = stuck_hint(*mute);
    e.on(mute->end.host);
    return e;
  }
  e.hint = stuck_hint(*first);
  const bool others =
      std::ranges::any_of(ranks, [&](const RankFacts& r) { return !r.exited && !stopped(r); });
  if (!others) return e;
  e.message =
      format("{} does not move: {}; {}", person(*first), state_words(first->state), e.message);
  e.rank = first->end.rank;
  e.on(first->end.host);
  return e;
}

}  // namespace collctl::cmd
