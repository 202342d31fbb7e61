// One suite of a check: what it says of itself becomes findings, and what busy hosts have spoilt is
// measured again.
#include "base/clock.h"
#include "base/format.h"
#include "cmd/check/check.h"

namespace collctl::cmd {

namespace {

void measure(CheckRun& run, SuiteResult& result) {
  run.tally = {};
  run.nothing_there.clear();
  result.why.clear();
  const Status done = result.suite->run(run);
  result.planned = run.tally.planned();
  result.measured = run.tally.done();
  result.end = SuiteEnd::done;
  if (done.ok() && result.planned == 0 && !run.nothing_there.empty()) {
    result.end = SuiteEnd::not_asked;
    result.why = run.nothing_there;
    return;
  }
  if (done.ok()) {
    for (Finding& finding : run.tally.missing(result.suite->name, run.out)) {
      result.end = SuiteEnd::partly;
      result.why = finding.message;
      run.findings.push_back(std::move(finding));
    }
    return;
  }
  result.end = SuiteEnd::broke;
  result.why = done.error().chain();
  if (done.error().code == ErrorCode::interrupted) {
    run.interrupted = done.error();
    return;
  }
  Finding finding{.name = result.suite->name};
  if (!done.error().host.empty()) {
    finding.at.kind = SubjectKind::host;
    finding.at.host = done.error().where();
  }
  if (done.error().code == ErrorCode::incomplete)
    finding.leave_out(format("{}: {}", result.suite->name, done.error().chain()),
                      done.error().hint);
  else
    finding.fail(done.error().code, format("{}: {}", result.suite->name, done.error().chain()),
                 done.error().hint);
  run.findings.push_back(std::move(finding));
}

}  // namespace

void run_suite(CheckRun& run, SuiteResult& result, std::optional<Deadline> until) {
  const int64_t began = now_ns();
  run.busy.clear();
  run.until = until;
  const CheckFound before = run;
  const size_t first = before.findings.size(), hosts = run.fit().size();
  BusyGuard guard(until);
  measure(run, result);
  while (guard.again(std::span(run.findings).subspan(first), run.busy) && !run.interrupted) {
    static_cast<CheckFound&>(run) = before;
    measure(run, result);
  }
  for (const Host& host : guard.settle(run.findings, first, hosts))
    run.out.try_emplace(host, result.suite->name);
  for (size_t i = first; i < run.findings.size() && result.end == SuiteEnd::done; ++i)
    if (run.findings[i].status == FindingStatus::not_tested &&
        run.findings[i].reason == kBusyHost) {
      result.end = SuiteEnd::partly;
      result.why = run.findings[i].message;
    }
  result.seconds = double(now_ns() - began) / 1e9;
  result.times = guard.times();
  result.again = guard.why();
}

void Tally::plan(const Host& host, size_t count, const char* what) {
  hosts_[host].planned += count;
  what_ = what;
}

void Tally::did(const Host& host, const std::string& key) {
  hosts_[host].done.insert(key);
}

size_t Tally::planned() const {
  size_t sum = 0;
  for (const auto& [host, counts] : hosts_) sum += counts.planned;
  return sum;
}

size_t Tally::done() const {
  size_t sum = 0;
  for (const auto& [host, counts] : hosts_) sum += counts.counted();
  return sum;
}

std::vector<Finding> Tally::missing(const std::string& suite,
                                    const std::map<Host, std::string>& excused) const {
  std::vector<Finding> list;
  const auto add = [&](Subject at, std::string why) {
    list.push_back(Finding{.name = suite + "/measured", .at = std::move(at)}.leave_out(
        std::move(why),
        "a suite that has not measured what it planned says nothing "
        "good: run it again, with -v for what it did"));
  };
  if (planned() == 0) {
    add({}, suite + ": there was nothing to measure");
    return list;
  }
  std::vector<Host> less;
  size_t counted = 0;
  for (const auto& [host, counts] : hosts_) {
    if (excused.contains(host)) continue;
    ++counted;
    if (counts.counted() < counts.planned) less.push_back(host);
  }
  if (less.size() > 1 && less.size() == counted) {
    add({}, format("{}: {} of {} {} were measured", suite, done(), planned(), what_));
    return list;
  }
  for (const Host& host : less) {
    const Counts& counts = hosts_.at(host);
    add({.kind = SubjectKind::host, .host = host},
        format("{}: {} of {} {} were measured", host, counts.counted(), counts.planned, what_));
  }
  return list;
}

}  // namespace collctl::cmd
