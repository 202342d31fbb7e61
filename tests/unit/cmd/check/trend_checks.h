// Checks of a few hosts, as a history has them. Pure.
#pragma once
#include <string>
#include <vector>

#include "base/format.h"
#include "cmd/check/trend.h"

namespace collctl::cmd::testing {

inline constexpr int64_t kDay = 86'400, kBegin = 1'800'000'000;  // 2027-01-15T08:00:00Z

// All suites done on node01, node02, ...; made so many days after kBegin.
inline PastCheck past_check(int day, size_t hosts) {
  PastCheck past{.file = format("day{:02}.json", day),
                 .unix_s = kBegin + day * kDay,
                 .version = "1.0",
                 .exit_code = 0};
  past.report.level = CheckLevel::standard;
  for (size_t i = 0; i < hosts; ++i)
    past.report.hosts.push_back(base::saved_host(format("node{:02}", i + 1)));
  for (const Suite& suite : suites())
    past.report.suites.push_back({.suite = &suite, .end = SuiteEnd::done, .seconds = 1, .why = ""});
  return past;
}

inline Subject host_subject(const std::string& host) {
  return {.kind = SubjectKind::host, .host = base::saved_host(host)};
}

inline void accuse(PastCheck& past, const std::string& host, const std::string& check,
                   const std::string& why) {
  const std::string suite = check.substr(0, check.find('/'));
  past.report.findings.push_back(Finding{.name = check, .at = host_subject(host)}.fail(
      ErrorCode::failed, format("{}: {}", host, why), "look at it"));
  past.report.out.try_emplace(base::saved_host(host), suite);
  past.report.culprits.push_back({SubjectKind::host, host, 1, why, false, base::saved_host(host)});
  past.exit_code = 1;
}

inline Finding& measure(PastCheck& past, const std::string& host, const std::string& check,
                        double GBps) {
  Finding& finding = past.report.findings.emplace_back(Finding{.name = check});
  if (!host.empty()) finding.at = host_subject(host);
  finding.measured = format("{:.6g}", GBps);
  finding.unit = "GB/s";
  return finding;
}

inline Trend trend_of(const std::vector<PastCheck>& checks, double below = 0.9,
                      const std::vector<std::string>& only = {}) {
  TrendMaker maker;
  for (const PastCheck& check : checks) maker.add(check);
  return *maker.make(below, only);
}

}  // namespace collctl::cmd::testing
