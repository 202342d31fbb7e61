#include "cmd/check/suites_in_turn.h"

#include <algorithm>

#include "base/clock.h"
#include "base/format.h"
#include "cmd/doctor/common_cause.h"
#include "cmd/job/interrupt.h"

namespace collctl::cmd {
namespace {

volatile std::sig_atomic_t g_stop = 0;

void leave_out(CheckRun& run, SuiteResult& result, SuiteEnd end, const std::string& why) {
  result.end = end;
  result.why = why;
  run.findings.push_back(Finding{.name = result.suite->name}.leave_out(
      format("{}: not run: {}", result.suite->name, why)));
}

// Findings for expectations and limits that no suite has checked.
void say_what_was_not_judged(CheckRun& run, const std::vector<SuiteResult>& results) {
  const auto add = [&](const char* name, const char* message) {
    run.findings.push_back(Finding{.name = name}.leave_out(message));
  };
  const auto ran = [&](std::string_view name) {
    return std::ranges::any_of(results, [&](const SuiteResult& result) {
      return result.suite->name == name &&
             (result.end == SuiteEnd::done || result.end == SuiteEnd::partly);
    });
  };
  const Expectation& expect = run.options.expect;
  if (expects(expect, ExpectKind::fact) && !ran("doctor"))
    add("doctor/expect", "what --expect asks for was not looked at: the suite doctor did not run");
  if (expects(expect, ExpectKind::floor) && !ran("node"))
    add("node/expect",
        "the speeds that --expect asks for were not measured: the suite node did not run");
  const Limits& limits = run.options.limits;
  if ((limits.min_efficiency || limits.thresholds || limits.baseline) && run.measured.empty())
    add("node/limits", "no collective was measured that limits could be held against");
}

// A host, GPU or NIC that failed in any suite is at fault; so are links that the doctor could not
// use, unless pairs, which measures them more than once, has judged them.
void complete_culprits(CheckRun& run, const std::vector<SuiteResult>& results) {
  const bool paired = std::ranges::any_of(results, [](const SuiteResult& result) {
    return std::string_view(result.suite->name) == "pairs" && result.end == SuiteEnd::done;
  });
  if (!paired) run.culprits.insert(run.culprits.end(), run.doubtful.begin(), run.doubtful.end());
  for (const Finding& finding : run.findings) {
    if (finding.status != FindingStatus::fail || !finding.at.host.named() ||
        finding.reason == kOfLauncher ||
        (finding.at.kind != SubjectKind::host && finding.at.kind != SubjectKind::gpu &&
         finding.at.kind != SubjectKind::nic))
      continue;
    const Host& host = finding.at.host;
    const bool known = std::ranges::any_of(run.culprits, [&](const Culprit& culprit) {
      return culprit.host.named() && culprit.host == host;
    });
    if (known || std::ranges::find(run.hosts, host) == run.hosts.end()) continue;
    const bool part = finding.at.kind != SubjectKind::host && !finding.at.device.empty();
    run.culprits.push_back({part ? finding.at.kind : SubjectKind::host,
                            part ? subject_name(finding.at) : host.name, 1, finding.message, false,
                            host});
  }
}

}  // namespace

StopSignals::StopSignals() {
  g_stop = 0;
  for (size_t i = 0; i < std::size(kNumbers); ++i) {
    struct sigaction mine {};
    ::sigaction(kNumbers[i], nullptr, &before_[i]);
    if (before_[i].sa_handler == SIG_IGN) continue;
    mine.sa_handler = [](int number) { g_stop = number; };
    mine.sa_flags = SA_RESTART;
    ::sigaction(kNumbers[i], &mine, nullptr);
  }
}

StopSignals::~StopSignals() {
  for (size_t i = 0; i < std::size(kNumbers); ++i) ::sigaction(kNumbers[i], &before_[i], nullptr);
}

bool take_stop(CheckRun& run) {
  if (!run.interrupted && g_stop != 0) run.interrupted = interrupted_error(int(g_stop));
  return bool(run.interrupted);
}

CheckReport run_suites(CheckRun& run, Progress& progress) {
  const int64_t began = now_ns();
  const auto elapsed = [&] { return double(now_ns() - began) / 1e9; };
  CheckReport report;
  report.level = run.options.level;
  report.hosts = run.hosts;
  bool loaded = false;
  // Those that come after it have their time as well.
  const auto until = [&](const Suite& suite) -> std::optional<Deadline> {
    if (run.options.budget_s <= 0) return std::nullopt;
    double later = 0;
    for (const Suite& other : suites())
      if (&other > &suite && is_asked(other, run.options))
        later += other.cost_s(int(run.fit().size()), run.options);
    return Deadline::after_seconds(run.options.budget_s - elapsed() - later);
  };
  // A `before` that fails is no error here, but for a signal: its suite says so itself.
  const auto before_load = [&] {
    for (const Suite& suite : suites()) {
      if (loaded || suite.before == nullptr || !is_asked(suite, run.options)) continue;
      const Status begun = suite.before(run);
      if (!begun && begun.error().code == ErrorCode::interrupted) run.interrupted = begun.error();
    }
    loaded = true;
  };
  for (const Suite& suite : suites()) {
    SuiteResult result{.suite = &suite};
    // One that looks at what the others did to the hosts asks those, too, that have failed since.
    const int fit = int(suite.before != nullptr ? run.hosts.size() : run.fit().size());
    const double cost = suite.cost_s(fit, run.options);
    run.progress = [&](const std::string& what) {
      progress.text(format("check: {}, {}, {:.0f} s", suite.name, what, elapsed()));
    };
    result.why = why_not_run(suite, int(run.hosts.size()), run.options);
    if (!result.why.empty()) {
      report.suites.push_back(std::move(result));
      continue;
    }
    if (take_stop(run)) {
      leave_out(run, result, SuiteEnd::broke, "the check was ended by a signal");
    } else if (fit < suite.least_hosts) {
      leave_out(
          run, result, SuiteEnd::no_hosts,
          format("{} of {} hosts are left, it needs {}", fit, run.hosts.size(), suite.least_hosts));
    } else if (run.options.budget_s > 0 && elapsed() + cost > run.options.budget_s) {
      leave_out(run, result, SuiteEnd::no_time,
                format("it is likely to take {:.0f} s, and {:.0f} s of the budget are left", cost,
                       std::max(0.0, run.options.budget_s - elapsed())));
    } else {
      run.progress("asking");
      if (suite.loads) before_load();
      if (run.interrupted)
        leave_out(run, result, SuiteEnd::broke, "the check was ended by a signal");
      else
        run_suite(run, result, until(suite));
      if (result.end == SuiteEnd::not_asked && run.options.only.contains(suite.name))
        leave_out(run, result, SuiteEnd::no_hosts, result.why);
    }
    report.suites.push_back(std::move(result));
  }
  complete_culprits(run, report.suites);
  say_what_was_not_judged(run, report.suites);
  progress.clear();
  static_cast<CheckSeen&>(report) = run;
  report.machine = run.machine;
  report.seconds = elapsed();
  return report;
}

}  // namespace collctl::cmd
