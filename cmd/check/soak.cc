// --soak: rounds of a check as one report.
#include <algorithm>

#include "base/format.h"
#include "cmd/check/check.h"
#include "cmd/text/sizes.h"
#include "cmd/topo/parts.h"

namespace collctl::cmd {
namespace {

int badness(FindingStatus status) {
  return status == FindingStatus::fail         ? 3
         : status == FindingStatus::not_tested ? 2
         : status == FindingStatus::warn       ? 1
                                               : 0;
}

// Times are the worse the longer they are, everything else the less it is.
bool is_worse(const Finding& a, const Finding& b) {
  const bool time = a.unit == "us" || a.unit == "ms" || a.unit == "s";
  return time ? a.figure() > b.figure() : a.figure() < b.figure();
}

bool measures(const Finding& finding) {
  return !finding.measured.empty() && !finding.unit.empty();
}

// The worst of each name into the list.
void keep_worst(std::vector<Finding>& list, const Finding& finding) {
  const auto known = std::ranges::find_if(list, [&](const Finding& one) {
    return one.name == finding.name && one.unit == finding.unit;
  });
  if (known == list.end())
    list.push_back(finding);
  else if (is_worse(finding, *known))
    *known = finding;
}

// Findings of a suite that was broken off do not count, but for failures.
bool counts(const CheckReport& round, const Finding& finding) {
  const std::string suite = finding.name.substr(0, finding.name.find('/'));
  return finding.status == FindingStatus::fail ||
         std::ranges::none_of(round.suites, [&](const SuiteResult& result) {
           return result.suite->name == suite && result.end == SuiteEnd::broke;
         });
}

bool has_failed(const CheckReport& round) {
  return std::ranges::any_of(round.findings,
                             [](const Finding& f) { return f.status == FindingStatus::fail; });
}

}  // namespace

CheckReport condensed(const CheckReport& round) {
  CheckReport kept = round;
  kept.findings.clear();
  kept.paths = {};
  kept.gpus.clear();
  kept.burnt.clear();
  kept.nccl.reset();
  kept.machine.clear();
  std::vector<Finding> worst;
  for (const Finding& finding : round.findings) {
    if (!counts(round, finding)) continue;
    if (finding.status != FindingStatus::pass)
      kept.findings.push_back(finding);
    else if (measures(finding) && finding.at.kind != SubjectKind::link)
      keep_worst(worst, finding);
  }
  kept.findings.insert(kept.findings.end(), worst.begin(), worst.end());
  return kept;
}

void SoakTotal::add(const CheckReport& given) {
  const CheckReport round = condensed(given);
  if (soak_.began.empty()) soak_.began = round.began;
  const int64_t begin = unix_of(soak_.began);
  const int64_t since = std::max<int64_t>(0, unix_of(round.began) - begin);
  const int64_t each = std::max<int64_t>(1, int64_t(asked_s_ / kIntervals));
  const std::string from = utc_date(begin + since / each * each);
  soak_.asked_s = asked_s_;
  soak_.seconds = double(since) + round.seconds;
  if (soak_.intervals.empty() || soak_.intervals.back().from != from)
    soak_.intervals.push_back({.from = from});
  SoakInterval& interval = soak_.intervals.back();
  for (int* rounds : {&soak_.rounds, &interval.rounds}) ++*rounds;
  for (int* failed : {&soak_.failed, &interval.failed}) *failed += has_failed(round);
  add_suites(round);
  for (const Finding& finding : round.findings) {
    if (measures(finding)) keep_worst(interval.lowest, finding);
    add_finding(finding, round.began);
  }
  for (const Culprit& culprit : round.culprits) {
    auto& all = all_.culprits;
    const auto known = std::ranges::find_if(all, [&](const Culprit& one) {
      return one.kind == culprit.kind && one.host == culprit.host && one.name == culprit.name;
    });
    if (known == all.end())
      all.push_back(culprit);
    else
      known->confidence = std::max(known->confidence, culprit.confidence);
    ++accused_[{culprit.kind, culprit.host, culprit.name}];
  }
}

void SoakTotal::add_suites(const CheckReport& round) {
  all_.level = round.level;
  all_.hosts = round.hosts;
  for (const auto& [host, suite] : round.out) all_.out.try_emplace(host, suite);
  if (soak_.rounds == 1) {
    all_.suites = round.suites;
    return;
  }
  for (size_t i = 0; i < std::min(round.suites.size(), all_.suites.size()); ++i) {
    const SuiteResult& one = round.suites[i];
    all_.suites[i].seconds += one.seconds;
    if (one.times > all_.suites[i].times) {
      all_.suites[i].times = one.times;
      all_.suites[i].again = one.again;
    }
    // Broken off by a signal: the rounds before it stand.
    if (one.end == SuiteEnd::done || one.end == SuiteEnd::broke) continue;
    all_.suites[i].end = one.end;
    all_.suites[i].why = one.why;
  }
}

void SoakTotal::add_finding(const Finding& finding, const std::string& began) {
  const bool passes = finding.status == FindingStatus::pass;
  auto tally = std::ranges::find_if(tallies_, [&](const Tally& one) {
    const bool both_pass = passes && one.worst.status == FindingStatus::pass;
    return one.worst.name == finding.name && (both_pass || one.worst.at == finding.at);
  });
  if (tally == tallies_.end()) {
    tally = tallies_.insert(tallies_.end(), {.worst = finding});
  } else {
    const int more = badness(finding.status) - badness(tally->worst.status);
    if (more > 0 || (more == 0 && measures(finding) && is_worse(finding, tally->worst)))
      tally->worst = finding;
  }
  if (!passes && tally->rounds++ == 0) tally->first = began;
}

CheckReport SoakTotal::report(const std::string& ended) const {
  CheckReport total = all_;
  total.soak = soak_;
  total.seconds = soak_.seconds;
  const std::string rounds = counted(size_t(soak_.rounds), "round");
  for (const Tally& tally : tallies_) {
    Finding& finding = total.findings.emplace_back(tally.worst);
    if (finding.status == FindingStatus::pass) continue;
    finding.n = tally.rounds;
    finding.of = uint64_t(soak_.rounds);
    finding.message =
        format("in {} of {}, first at {}: {}", tally.rounds, rounds, tally.first, finding.message);
  }
  for (Culprit& culprit : total.culprits)
    culprit.evidence =
        format("in {} of {}: {}", accused_.at({culprit.kind, culprit.host, culprit.name}), rounds,
               culprit.evidence);
  if (ended.empty()) return total;
  total.findings.push_back(Finding{.name = "soak"}.leave_out(
      format("{} after {} of {}", ended, duration_text(soak_.seconds), duration_text(asked_s_))));
  return total;
}

}  // namespace collctl::cmd
