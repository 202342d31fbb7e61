#include "cmd/check/trend.h"

#include <algorithm>

#include "base/format.h"
#include "cmd/doctor/doctor.h"
#include "cmd/measure/timing.h"
#include "cmd/report/compare.h"
#include "cmd/text/hosts.h"

namespace collctl::cmd {
namespace {

bool about(const Subject& at, const std::set<Host>& hosts) {
  return hosts.empty() || (at.host.named() && hosts.contains(at.host)) ||
         (at.peer.named() && hosts.contains(at.peer));
}

// Whether the check has tried the way between two ends, in either direction.
bool has_tried(const PathMatrix& paths, const Subject& at) {
  const auto is_end = [](const PathEnd& end, const Host& host, const std::string& nic) {
    return end.host == host && (nic.empty() || end.nic == nic);
  };
  for (size_t i = 0; i < paths.ends.size(); ++i)
    for (size_t j = 0; j < paths.ends.size(); ++j)
      if (is_end(paths.ends[i], at.host, at.device) &&
          is_end(paths.ends[j], at.peer, at.peer_device) &&
          (paths.GBps[i][j] != kNotTried || paths.GBps[j][i] != kNotTried))
        return true;
  return false;
}

}  // namespace

size_t suite_of(const std::string& check) {
  const std::string name = check.substr(0, check.find('/'));
  size_t at = 0;
  while (at < suites().size() && name != suites()[at].name) ++at;
  return at;
}

const char* trend_word(TrendState state) {
  constexpr const char* kWords[kTrendStates] = {"new", "ongoing", "open", "better"};
  return kWords[size_t(state)];
}

const char* host_word(HostState state) {
  constexpr const char* kWords[kHostStates] = {"well", "well-again", "unsure", "fails"};
  return kWords[size_t(state)];
}

std::vector<Host> Trend::well_again() const {
  std::vector<Host> list;
  for (const TrendHost& host : hosts)
    if (host.state == HostState::well_again && !host.missing) list.push_back(host.host);
  return list;
}

void TrendMaker::add(const PastCheck& check) {
  const CheckReport& report = check.report;
  Past& past = all_.emplace_back();
  past.run = {.file = check.file,
              .version = check.version,
              .level = kCheckLevels[size_t(report.level)],
              .unix_s = check.unix_s,
              .exit_code = check.exit_code};
  past.level = report.level;
  past.hosts = {report.hosts.begin(), report.hosts.end()};
  for (const Host& host : report.hosts) past.run.hosts.push_back(host.name);
  for (const auto& [host, suite] : report.out) past.bad.insert(host);
  for (const Culprit& culprit : report.culprits)
    if (culprit.host.named()) past.bad.insert(culprit.host);
  for (const Finding& finding : report.findings) {
    if (!fails(finding)) continue;
    if (finding.at.host.named() && finding.at.kind != SubjectKind::link)
      past.bad.insert(finding.at.host);
    past.failing.insert(name_of_finding(finding));
    past.failures.push_back(finding);
  }
  past.culprits = report.culprits;
  past.paths = report.paths;
  add_looks(report, past);
  // Those of a soak are the worst of its rounds.
  if (!report.soak) add_figures(check);
}

void TrendMaker::add_looks(const CheckReport& report, Past& past) const {
  past.asked.resize(suites().size());
  past.done.resize(suites().size());
  std::map<Host, std::vector<const Finding*>> by_host;
  CheckReport part;
  part.suites = report.suites;
  for (const Finding& finding : report.findings) {
    if (finding.at.kind == SubjectKind::job) part.findings.push_back(finding);
    for (const Host* host : {&finding.at.host, &finding.at.peer})
      if (host->named()) by_host[*host].push_back(&finding);
  }
  const size_t of_job = part.findings.size();
  for (const SuiteResult& result : report.suites) {
    const auto at = size_t(result.suite - suites().data());
    past.asked[at] = result.end != SuiteEnd::not_asked;
    past.done[at] = result.end == SuiteEnd::done;
  }
  for (const Host& host : report.hosts) {
    part.findings.resize(of_job);
    for (const Finding* finding : by_host[host]) part.findings.push_back(*finding);
    part.out.clear();
    if (const auto out = report.out.find(host); out != report.out.end()) part.out.insert(*out);
    std::vector<Look>& looks = past.looks[host];
    looks.resize(suites().size(), Look::none);
    for (const SuiteResult& result : part.suites) {
      const std::string word = suite_word(part, result, host);
      looks[size_t(result.suite - suites().data())] = word == "ok" || word == "warn" ? Look::ok
                                                      : word == "FAIL"               ? Look::bad
                                                                                     : Look::none;
    }
  }
}

// Whether a check has the failure; none: it did not look at the same thing. `failed`: the last that
// has it.
std::optional<bool> TrendMaker::look(const Past& past, const Past& failed, const Finding& finding) {
  if (past.failing.contains(name_of_finding(finding))) return true;
  if (past.level < failed.level) return std::nullopt;
  const size_t suite = suite_of(finding.name);
  if (suite == suites().size()) return std::nullopt;
  const Subject& at = finding.at;
  if (!at.host.named()) {
    const bool other = std::ranges::any_of(past.failures, [&](auto& failure) {
      return !failure.at.host.named() && suite_of(failure.name) == suite;
    });
    if (past.hosts != failed.hosts || !past.done[suite] || other) return std::nullopt;
    return false;
  }
  for (const Host* host : {&at.host, &at.peer}) {
    if (!host->named()) continue;
    const auto looks = past.looks.find(*host);
    if (looks == past.looks.end() || looks->second[suite] != Look::ok) return std::nullopt;
  }
  // Among many hosts not every pair is tried.
  if (at.kind == SubjectKind::link) {
    const bool tried = std::string_view(suites()[suite].name) == "pairs"
                           ? has_tried(past.paths, at)
                           : past.hosts.size() <= kAllPairs;
    if (!tried) return std::nullopt;
  }
  return false;
}

std::optional<TrendFinding> TrendMaker::follow(const std::string& name) const {
  const auto has = [&](const Past& past) { return past.failing.contains(name); };
  const auto newest = std::find_if(all_.rbegin(), all_.rend(), has);
  if (newest == all_.rend()) return std::nullopt;
  const Past& failed = *newest;
  TrendFinding made;
  made.finding = *std::ranges::find_if(
      failed.failures, [&](auto& failure) { return name_of_finding(failure) == name; });
  made.last = failed.time();
  bool before = false;  // the check that looked at it last fails
  size_t streak = 0;
  for (const Past& past : all_) {
    const std::optional<bool> is_bad = look(past, failed, made.finding);
    if (!is_bad) continue;
    ++made.looked;
    made.failed += *is_bad;
    if (*is_bad && !before) {
      made.since = past.time();
      streak = 0;
    }
    streak += *is_bad;
    if (!*is_bad && before) made.well = past.time();
    before = *is_bad;
  }
  const Subject& at = made.finding.at;
  for (auto later = all_.begin() + (all_.rend() - newest); later != all_.end(); ++later)
    made.after +=
        at.host.named() && later->hosts.contains(at.host) && !look(*later, failed, made.finding);
  if (!before)
    made.state = TrendState::better;
  else if (is_missing(at.host) || is_missing(at.peer))
    made.state = TrendState::open;
  else
    made.state = streak > 1 ? TrendState::ongoing : TrendState::fresh;
  return made;
}

// A newer check of several hosts has some that it was checked with, and not itself.
bool TrendMaker::is_missing(const Host& host) const {
  if (!host.named()) return false;
  const auto newest = std::find_if(all_.rbegin(), all_.rend(),
                                   [&](const Past& past) { return past.hosts.contains(host); });
  if (newest == all_.rend()) return false;
  return std::any_of(all_.rbegin(), newest, [&](const Past& past) {
    return past.hosts.size() > 1 && std::ranges::any_of(newest->hosts, [&](const Host& peer) {
             return past.hosts.contains(peer);
           });
  });
}

TrendHost TrendMaker::follow_host(const Host& host) const {
  TrendHost made{.host = host};
  std::set<size_t> debt;  // suites that are to pass together before it is well again
  CheckLevel level{};
  const auto become = [&](HostState state, const Past& past) {
    if (made.state != state || made.checks == 1) made.since = past.time();
    made.state = state;
  };
  for (const Past& past : all_) {
    const auto looks = past.looks.find(host);
    if (looks == past.looks.end()) continue;
    ++made.checks;
    made.last = past.time();
    if (made.checks == 1) made.since = past.time();
    if (past.bad.contains(host)) {
      ++made.failed;
      for (size_t i = 0; i < past.asked.size(); ++i)
        if (past.asked[i]) debt.insert(i);
      level = std::max(level, past.level);
      become(HostState::fails, past);
      continue;
    }
    if (made.state == HostState::well || made.state == HostState::well_again) continue;
    made.not_passed.clear();
    for (const size_t suite : debt)
      if (past.level < level || looks->second[suite] != Look::ok)
        made.not_passed.emplace_back(suites()[suite].name);
    become(made.not_passed.empty() ? HostState::well_again : HostState::unsure, past);
    if (!made.not_passed.empty()) continue;
    debt.clear();
    level = {};
  }
  made.missing = is_missing(host);
  return made;
}

Result<Trend> TrendMaker::make(double below, const std::vector<std::string>& only) {
  std::set<Host> hosts, wanted;
  std::vector<std::string> known;
  for (const Past& past : all_)
    for (const Host& host : past.hosts)
      if (hosts.insert(host).second) known.push_back(host.name);
  for (const std::string& name : only) {
    const Host host = base::saved_host(name);
    if (!hosts.contains(host))
      return Error(ErrorCode::usage, format("--host {}: no check has it", name),
                   known.empty() ? "" : "they have " + folded_hosts(known));
    wanted.insert(host);
  }
  std::erase_if(all_, [&](const Past& past) {
    return !wanted.empty() && std::ranges::none_of(past.hosts, [&](const Host& host) {
      return wanted.contains(host);
    });
  });
  std::ranges::sort(all_, [](const Past& a, const Past& b) {
    return std::tie(a.run.unix_s, a.run.file) < std::tie(b.run.unix_s, b.run.file);
  });
  Trend trend;
  trend.below = below;
  std::set<std::string> names;
  for (const Past& past : all_) {
    trend.runs.push_back(past.run);
    for (const Finding& failure : past.failures)
      if (about(failure.at, wanted)) names.insert(name_of_finding(failure));
  }
  for (const std::string& name : names)
    if (auto finding = follow(name)) trend.findings.push_back(std::move(*finding));
  std::ranges::stable_sort(trend.findings, {}, &TrendFinding::state);
  for (const Host& host : wanted.empty() ? hosts : wanted) trend.hosts.push_back(follow_host(host));
  std::ranges::sort(trend.hosts, [](const TrendHost& a, const TrendHost& b) {
    return a.host.name < b.host.name;
  });
  // Each host's are those of its newest check, unless its peers have newer ones without it.
  std::set<Host> newer;
  for (auto past = all_.rbegin(); past != all_.rend(); ++past) {
    const bool newest =
        std::ranges::none_of(past->hosts, [&](const Host& host) { return newer.contains(host); });
    for (const Culprit& culprit : past->culprits) {
      const Host& host = culprit.host;
      const bool now = host.named() ? !newer.contains(host) && !is_missing(host) : newest;
      if (now && (wanted.empty() || (host.named() && wanted.contains(host))))
        trend.culprits.push_back(culprit);
    }
    newer.insert(past->hosts.begin(), past->hosts.end());
  }
  for (auto& [key, figure] : figures_) {
    if (!about(figure.at, wanted)) continue;
    judge_figure(figure, below);
    trend.figures.push_back(figure);
  }
  std::ranges::stable_sort(trend.figures, [](const TrendFigure& a, const TrendFigure& b) {
    const auto order = [](const TrendFigure& one) {
      return std::tuple(!one.declines, one.declines ? one.late / one.early : 0, one.what == "path");
    };
    return order(a) < order(b);
  });
  return trend;
}

}  // namespace collctl::cmd
