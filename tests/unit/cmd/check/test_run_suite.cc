// Suites whose hosts are busy for a while, and what a check makes of them.
#include "cmd/check/check.h"
#include "tests/catch.h"
#include "tests/unit/cmd/cli/option_lines.h"

namespace run_suite_tests {

using namespace collctl;
using namespace collctl::cmd;
using namespace collctl::cmd::testing;

namespace {

const std::vector<Host> kHosts = {{HostId{0}, "a"}, {HostId{1}, "b"}, {HostId{2}, "c"}};

// One measurement of the suite: who was busy, and what it says.
struct Measured {
  std::vector<Host> busy;
  std::vector<Finding> findings;
};

Finding spoilt(const Host& host = {}) {
  Finding finding{.name = "fake/speed"};
  finding.leave_out("slow, which says little");
  finding.reason = kBusyHost;
  if (host.named()) finding.at = {.kind = SubjectKind::host, .host = host};
  return finding;
}

std::vector<Measured> g_script;  // the last goes on
size_t g_times = 0;

Status fake(CheckRun& run) {
  const Measured& now = g_script[std::min(g_times++, g_script.size() - 1)];
  for (const Host& host : run.hosts) {
    run.tally.plan(host, 1, "runs");
    run.tally.did(host, "run");
  }
  for (const Host& host : now.busy) run.busy[host] = "others took 2 cores";
  run.findings.insert(run.findings.end(), now.findings.begin(), now.findings.end());
  run.measured.emplace_back();
  return {};
}
constexpr Suite kFake{
    "fake", CheckLevel::quick, 1, "", "", [](int, const CheckOptions&) { return 0.0; }, fake, true};

struct Done {
  SuiteResult result;
  std::vector<Finding> findings;
  std::map<Host, std::string> out;
  size_t kept;  // reports of measurements
  ErrorCode code() const { return Verdict(findings, std::nullopt).code(); }
};

Done done(std::vector<Measured> script, std::optional<Deadline> until = std::nullopt,
          std::vector<Host> hosts = kHosts) {
  g_script = std::move(script);
  g_times = 0;
  const ParsedLine line = good("check");
  CheckRun run{line, {}};
  run.hosts = std::move(hosts);
  run.findings.push_back({.name = "earlier"});
  SuiteResult result{.suite = &kFake, .why = {}};
  run_suite(run, result, until);
  REQUIRE(run.findings[0].name == "earlier");
  run.findings.erase(run.findings.begin());
  return {result, run.findings, run.out, run.measured.size()};
}

}  // namespace

TEST_CASE("a suite that a busy host spoilt is measured until it is not", "[check]") {
  const Measured busy{{kHosts[1]}, {spoilt()}}, well{{}, {{.name = "fake/speed"}}};
  for (const size_t times : {size_t(1), size_t(2)}) {
    std::vector<Measured> script(times, busy);
    script.push_back(well);
    const Done found = done(script);
    CHECK(found.result.times == int(times) + 1);
    CHECK(found.result.again == "b: others took 2 cores");
    CHECK(found.result.end == SuiteEnd::done);
    CHECK(found.findings.size() == 1);  // of the last alone
    CHECK(found.kept == 1);
    CHECK(found.code() == ErrorCode{});
    CHECK(found.out.empty());
  }
  const Done once = done({well});
  CHECK(once.result.times == 1);
  CHECK(once.result.again.empty());
}

TEST_CASE("a suite that stays spoilt is not tested, or the fault of the only busy host",
          "[check]") {
  const auto stays = [](const std::vector<Host>& busy, const Host& at, size_t hosts = 3) {
    return done({{busy, {spoilt(at)}}}, std::nullopt,
                {kHosts.begin(), kHosts.begin() + long(hosts)});
  };
  for (const Host& at : {Host{}, kHosts[1]}) {
    const Done alone = stays({kHosts[1]}, at);
    CHECK(alone.result.times == BusyGuard::kMostTimes);
    REQUIRE(alone.findings.size() == 1);
    CHECK(alone.findings[0].code == ErrorCode::failed);
    CHECK(alone.findings[0].at.host == kHosts[1]);
    CHECK(alone.findings[0].message ==
          "b was busy in each of 3 measurements, and most of its peers were not (others took 2 "
          "cores): slow, which says little");
    CHECK(alone.out == std::map<Host, std::string>{{kHosts[1], "fake"}});

    for (const Done& nobody : {stays({kHosts[0], kHosts[1]}, at), stays({kHosts[1]}, at, 1)}) {
      CHECK(nobody.code() == ErrorCode::incomplete);
      CHECK(nobody.findings[0].message == "slow, which says little, in each of 3 measurements");
      CHECK(nobody.out.empty());
      CHECK(nobody.result.end == SuiteEnd::partly);
      CHECK(nobody.result.why == nobody.findings[0].message);
    }
  }
  // With a budget for as long as it lasts.
  std::vector<Measured> script(5, Measured{{kHosts[1]}, {spoilt()}});
  script.push_back({{}, {{.name = "fake/speed"}}});
  CHECK(done(script, Deadline::after_seconds(60)).result.times == 6);
  // Measured once, since another failure stands: nobody is at fault for it.
  Finding other{.name = "fake/data"};
  other.fail(ErrorCode::bad_data, "wrong");
  const Done once = done({{{kHosts[1]}, {spoilt(), other}}});
  CHECK(once.result.times == 1);
  CHECK(once.out.empty());
  CHECK(once.findings[0].code == ErrorCode::incomplete);
  // Busy itself, and another is what the figure is about.
  CHECK(stays({kHosts[1]}, kHosts[2]).code() == ErrorCode::incomplete);
  // Not the same host every time.
  const Done turns = done({{{kHosts[0]}, {spoilt()}}, {{kHosts[1]}, {spoilt()}}});
  CHECK(turns.code() == ErrorCode::incomplete);
}

TEST_CASE("a suite is not measured again for a failure, a pass, or without time", "[check]") {
  const auto times = [](const Finding& more, std::optional<Deadline> until = std::nullopt) {
    return done({{{kHosts[1]}, {spoilt(), more}}, {{}, {}}}, until).result.times;
  };
  const Finding pass{.name = "fake/data"};
  Finding wrong{.name = "fake/data"};
  wrong.fail(ErrorCode::bad_data, "wrong");
  CHECK(times(pass) == 2);
  CHECK(times(pass, Deadline::after_seconds(3600)) == 2);
  CHECK(times(pass, Deadline::after_seconds(-1)) == 1);
  CHECK(times(wrong) == 1);
  Finding marked{.name = "fake/speed", .reason = kBusyHost};
  CHECK(done({{{kHosts[1]}, {marked}}}).result.times == 1);
}

TEST_CASE("a suite that finds nothing to look at is left out, and one that says nothing is not",
          "[check]") {
  const ParsedLine line = good("check");
  const auto end = [&](Status (*suite)(CheckRun&)) {
    CheckRun run{line, {}};
    run.hosts = kHosts;
    run.nothing_there = "of the suite before";
    const Suite nothing{"fake", CheckLevel::quick, 1, "", "", nullptr, suite};
    SuiteResult result{.suite = &nothing, .why = {}};
    run_suite(run, result, std::nullopt);
    return std::pair(result, run.findings.size());
  };
  const auto [left, none] = end([](CheckRun& run) -> Status {
    run.nothing_there = "no host has one";
    return {};
  });
  CHECK(left.end == SuiteEnd::not_asked);
  CHECK(left.why == "no host has one");
  CHECK(none == 0);
  const auto [silent, told] = end([](CheckRun&) -> Status { return {}; });
  CHECK(silent.end == SuiteEnd::partly);
  CHECK(told == 1);
  // A measurement that was planned and not made is not nothing.
  const auto [less, one] = end([](CheckRun& run) -> Status {
    run.tally.plan(kHosts[0], 1, "runs");
    run.nothing_there = "no host has one";
    return {};
  });
  CHECK(less.end == SuiteEnd::partly);
  CHECK(one == 1);
}

}  // namespace run_suite_tests
