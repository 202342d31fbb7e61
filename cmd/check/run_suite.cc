// One suite of a check: what it says of itself becomes findings, and what busy hosts have spoilt is
// measured again.
#include "base/clock.h"
#include "base/format.h"
#include "cmd/check/check.h"

namespace collctl::cmd {
namespace {

void measure(CheckRun& run, SuiteResult& result) {
  run.tally = {};
  result.why.clear();
  const Status done = result.suite->run(run);
  result.planned = run.tally.planned();
  result.measured = run.tally.done();
  result.end = SuiteEnd::done;
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

}  // namespace collctl::cmd
