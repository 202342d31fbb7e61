// The fate of hosts over the checks of a history: new, going on, better, well again, declining;
// and what says nothing of any of that.
#include "base/format.h"
#include "cmd/check/trend.h"
#include "tests/catch.h"
#include "tests/unit/cmd/check/trend_checks.h"

namespace check_trend_tests {

using namespace collctl;
using namespace collctl::cmd;
using namespace collctl::cmd::testing;

namespace {

// "new node02 1/3; ..." of all failures.
std::string failures(const Trend& trend) {
  std::string text;
  for (const TrendFinding& one : trend.findings)
    text += format("{} {} {}/{}; ", trend_word(one.state), subject_name(one.finding.at), one.failed,
                   one.looked);
  return text;
}

const TrendHost& host_of(const Trend& trend, const std::string& name) {
  for (const TrendHost& host : trend.hosts)
    if (host.host == base::saved_host(name)) return host;
  FAIL(name << " is not in it");
  return trend.hosts[0];
}

std::string resumed(const Trend& trend) {
  return resume_lines(trend.well_again());
}

SuiteResult& suite(PastCheck& past, const std::string& name) {
  for (SuiteResult& result : past.report.suites)
    if (result.suite->name == name) return result;
  FAIL(name << " is no suite");
  return past.report.suites[0];
}

void not_asked(PastCheck& past, const std::string& name) {
  suite(past, name).end = SuiteEnd::not_asked;
}

bool declines(const std::vector<double>& values, double below = 0.9) {
  TrendFigure figure;
  for (size_t i = 0; i < values.size(); ++i) figure.values.emplace_back(int64_t(i), values[i]);
  judge_figure(figure, below);
  return figure.declines;
}

}  // namespace

TEST_CASE("a failure is new, goes on, and gets better", "[check]") {
  std::vector<PastCheck> checks{past_check(0, 3), past_check(1, 3), past_check(2, 3)};
  accuse(checks[2], "node02", "node/memory", "is slow");
  CHECK(failures(trend_of(checks)) == "new node02 1/3; ");
  checks.push_back(past_check(3, 3));
  accuse(checks[3], "node02", "node/memory", "is slower");
  accuse(checks[3], "node03", "pairs/blame", "is cut off");
  const Trend trend = trend_of(checks);
  CHECK(failures(trend) == "new node03 1/4; ongoing node02 2/4; ");
  CHECK(trend.findings[1].since == kBegin + 2 * kDay);
  CHECK(trend.findings[1].finding.message == "node02: is slower");
  CHECK(host_of(trend, "node01").state == HostState::well);
  CHECK(host_of(trend, "node02").state == HostState::fails);
  CHECK(host_of(trend, "node02").failed == 2);
  CHECK(resumed(trend).empty());
  checks.push_back(past_check(4, 3));
  const Trend better = trend_of(checks);
  CHECK(failures(better) == "better node02 2/5; better node03 1/5; ");
  CHECK(better.findings[0].well == kBegin + 4 * kDay);
  CHECK(better.culprits.empty());
  CHECK(resumed(better) ==
        "scontrol update nodename=node02 state=resume\n"
        "scontrol update nodename=node03 state=resume\n");
  checks.push_back(past_check(5, 3));
  accuse(checks[5], "node02", "node/memory", "is slow again");
  CHECK(failures(trend_of(checks)) == "new node02 3/6; better node03 1/6; ");
}

TEST_CASE("checks are judged by their time, whatever their order in the folder", "[check]") {
  std::vector<PastCheck> checks{past_check(5, 2), past_check(1, 2)};
  accuse(checks[1], "node01", "node/memory", "is slow");
  CHECK(failures(trend_of(checks)) == "better node01 1/2; ");
}

TEST_CASE("a failure goes on while no check has looked at the same thing", "[check]") {
  std::vector<PastCheck> checks{past_check(0, 3)};
  accuse(checks[0], "node02", "pairs/blame", "is slow");
  const auto after = [&](auto change) {
    std::vector<PastCheck> more = checks;
    more.push_back(past_check(1, 3));
    change(more[1]);
    const Trend trend = trend_of(more);
    CHECK(resumed(trend).empty());
    return failures(trend) + format("{}", trend.findings[0].after);
  };
  const std::string kStill = "new node02 1/1; 1";
  CHECK(after([](PastCheck& past) { not_asked(past, "pairs"); }) == kStill);
  CHECK(after([](PastCheck& past) { suite(past, "pairs").end = SuiteEnd::broke; }) == kStill);
  CHECK(after([](PastCheck& past) { past.report.level = CheckLevel::quick; }) == kStill);
  CHECK(after([](PastCheck& past) {
          past.report.findings.push_back(Finding{.name = "pairs/measured"}.leave_out("too few"));
        }) == kStill);
  // It is left out of pairs, as it fails the doctor.
  CHECK(after([](PastCheck& past) { accuse(past, "node02", "doctor/cores", "has none"); }) ==
        "new node02 1/2; new node02 1/1; 0");
}

TEST_CASE("a host is well again when one check passes all that it failed and was kept from",
          "[check]") {
  std::vector<PastCheck> checks{past_check(0, 3), past_check(1, 3)};
  accuse(checks[0], "node02", "node/memory", "is slow");
  not_asked(checks[1], "cluster");
  Trend trend = trend_of(checks);
  CHECK(failures(trend) == "better node02 1/2; ");
  CHECK(host_of(trend, "node02").state == HostState::unsure);
  CHECK(host_of(trend, "node02").not_passed == std::vector<std::string>{"cluster"});
  CHECK(resumed(trend).empty());
  checks.push_back(past_check(2, 3));
  CHECK(resumed(trend_of(checks)) == "scontrol update nodename=node02 state=resume\n");
  // One that is less thorough changes nothing of that.
  checks.push_back(past_check(3, 3));
  checks[3].report.level = CheckLevel::quick;
  trend = trend_of(checks);
  CHECK(host_of(trend, "node02").state == HostState::well_again);
  CHECK(host_of(trend, "node02").since == kBegin + 2 * kDay);
}

TEST_CASE("who is called as no node of Slurm is gets no line", "[check]") {
  CHECK(resume_lines({base::saved_host("node01"), base::saved_host("node[1-9]"),
                      base::saved_host("-x"), base::saved_host("a b")}) ==
        "scontrol update nodename=node01 state=resume\n");
}

TEST_CASE("a host that is in no newer check of its peers is neither well nor failing", "[check]") {
  std::vector<PastCheck> checks{past_check(0, 3), past_check(1, 2)};
  accuse(checks[0], "node03", "node/memory", "is slow");
  Trend trend = trend_of(checks);
  CHECK(failures(trend) == "open node03 1/1; ");
  CHECK(host_of(trend, "node03").missing);
  CHECK(trend.culprits.empty());
  CHECK_FALSE(host_of(trend, "node02").missing);
  CHECK(trend_document(trend, "h", {}).judged.exit_code == int(ErrorCode::incomplete));
  // Hosts that check themselves, each by itself, miss nobody.
  std::vector<PastCheck> alone;
  for (int day = 0; day < 3; ++day) {
    alone.push_back(past_check(day, 1));
    alone[size_t(day)].report.hosts = {base::saved_host(format("node{:02}", day + 1))};
  }
  accuse(alone[0], "node01", "node/memory", "is slow");
  trend = trend_of(alone);
  CHECK(failures(trend) == "new node01 1/1; ");
  CHECK_FALSE(host_of(trend, "node01").missing);
  CHECK(trend_document(trend, "h", {}).judged.exit_code == 1);
}

TEST_CASE("a failure of the job as a whole is held against checks of the same hosts", "[check]") {
  std::vector<PastCheck> checks{past_check(0, 3), past_check(1, 2)};
  checks[0].report.findings.push_back(
      Finding{.name = "cluster/allreduce"}.fail(ErrorCode::failed, "it is slow"));
  CHECK(failures(trend_of(checks)) == "new  1/1; ");
  checks.push_back(past_check(2, 3));
  CHECK(failures(trend_of(checks)) == "better  1/2; ");
  suite(checks[2], "cluster").end = SuiteEnd::no_time;
  CHECK(failures(trend_of(checks)) == "new  1/1; ");
}

TEST_CASE("a link is good when its ends have been tried with each other", "[check]") {
  std::vector<PastCheck> checks{past_check(0, 3), past_check(1, 3)};
  Finding link{.name = "pairs/rail"};
  link.at = {.kind = SubjectKind::link,
             .host = base::saved_host("node01"),
             .device = "eth0",
             .peer = base::saved_host("node02"),
             .peer_device = "eth0"};
  checks[0].report.findings.push_back(link.fail(ErrorCode::failed, "nothing passes"));
  CHECK(trend_of(checks).findings[0].state == TrendState::fresh);
  PathMatrix& paths = checks[1].report.paths;
  paths.ends = {{base::saved_host("node01"), "eth0"}, {base::saved_host("node02"), "eth0"}};
  paths.GBps = {{kNotTried, kNotTried}, {kNotTried, kNotTried}};
  CHECK(trend_of(checks).findings[0].state == TrendState::fresh);
  paths.GBps[0][1] = 2;
  CHECK(trend_of(checks).findings[0].state == TrendState::better);
}

TEST_CASE("a slow decline is one, an outlier and scatter are none", "[check]") {
  CHECK(declines({10, 9.8, 9.5, 9.2, 8.9, 8.6, 8.4, 8.1, 7.9}));
  CHECK_FALSE(declines({10, 9.8, 9.5, 9.2, 8.9, 8.6, 8.4, 8.1, 7.9}, 0.7));
  CHECK_FALSE(declines({7.9, 8.1, 8.4, 8.6, 8.9, 9.2, 9.5, 9.8, 10}));
  // Six are enough, five are not.
  CHECK(declines({10, 10, 9, 8, 7, 7}));
  CHECK_FALSE(declines({10, 10, 8, 7, 7}));
  // Wherever one is that is far away.
  for (size_t n : {6, 7, 9, 12})
    for (size_t at = 0; at < n; ++at)
      for (const double far : {0.0, 1.0, 100.0}) {
        std::vector<double> values(n, 10);
        values[at] = far;
        INFO(n << " values, " << far << " at " << at);
        CHECK_FALSE(declines(values));
      }
  // Less in the last third, and no more so than values scatter.
  CHECK_FALSE(declines({10, 14, 9, 13, 8, 12, 9, 8, 13}));
  CHECK_FALSE(declines({}));
  CHECK_FALSE(declines({0, 0, 0, 0, 0, 0}));
}

TEST_CASE("speeds are one series where they were measured in the same way", "[check]") {
  std::vector<PastCheck> checks;
  for (int day = 0; day < 8; ++day) {
    PastCheck& past = checks.emplace_back(past_check(day, 2));
    measure(past, "node01", "node/memory", 10 - day * 0.5);
    measure(past, "node02", "node/memory", 10);
    measure(past, "", "cluster/allreduce", 5).basis = "bus bandwidth at 4 MiB; expected by";
  }
  checks[3].report.level = CheckLevel::full;
  checks[4].version = "1.1";
  measure(checks[5], "node02", "node/memory", 1).reason = kBusyHost;
  checks[6].report.out[base::saved_host("node02")] = "node";
  const Trend trend = trend_of(checks);
  std::string seen;
  for (const TrendFigure& figure : trend.figures)
    seen += format("{} {}{} {} {}: {}+{}{}\n", figure.what, subject_name(figure.at), figure.hosts,
                   figure.level, figure.version, figure.values.size(), figure.spoilt,
                   figure.declines ? " declines" : "");
  CHECK(seen ==
        "node/memory node01 standard 1.0: 6+0 declines\n"
        "cluster/allreduce node01, node02 full 1.0: 1+0\n"
        "cluster/allreduce node01 standard 1.0: 1+0\n"
        "cluster/allreduce node01, node02 standard 1.0: 5+0\n"
        "cluster/allreduce node01, node02 standard 1.1: 1+0\n"
        "node/memory node01 full 1.0: 1+0\n"
        "node/memory node01 standard 1.1: 1+0\n"
        "node/memory node02 full 1.0: 1+0\n"
        "node/memory node02 standard 1.0: 5+1\n"
        "node/memory node02 standard 1.1: 1+0\n");
  CHECK(trend_document(trend, "h", {}).judged.exit_code == 1);
}

TEST_CASE("speeds of a soak are the worst of its rounds, and in no series", "[check]") {
  std::vector<PastCheck> checks{past_check(0, 1)};
  measure(checks[0], "node01", "node/memory", 10);
  CHECK(trend_of(checks).figures.size() == 1);
  checks[0].report.soak.emplace();
  CHECK(trend_of(checks).figures.empty());
}

TEST_CASE("of one host there is what is about it", "[check]") {
  std::vector<PastCheck> checks{past_check(0, 3), past_check(1, 2)};
  for (PastCheck& past : checks)
    for (const char* host : {"node01", "node02"}) measure(past, host, "node/memory", 10);
  accuse(checks[0], "node03", "node/memory", "is slow");
  accuse(checks[1], "node02", "node/memory", "is slow");
  const Trend trend = trend_of(checks, 0.9, {"node03"});
  CHECK(trend.runs.size() == 1);
  REQUIRE(trend.hosts.size() == 1);
  CHECK(trend.hosts[0].host.name == "node03");
  CHECK(failures(trend) == "new node03 1/1; ");
  CHECK(trend.figures.empty());
  REQUIRE(trend.culprits.size() == 1);
  CHECK(trend.culprits[0].name == "node03");
  TrendMaker maker;
  maker.add(checks[0]);
  const auto none = maker.make(0.9, {"node09"});
  REQUIRE_FALSE(none.ok());
  CHECK(none.error().code == ErrorCode::usage);
  CHECK(none.error().hint == "they have node01, node02, node03");
}

TEST_CASE("a history without a check, or with a damaged one, is no pass", "[check]") {
  CHECK(trend_document({}, "h", {}).judged.exit_code == int(ErrorCode::incomplete));
  const Trend good = trend_of({past_check(0, 2)});
  CHECK(trend_document(good, "h", {}).judged.exit_code == 0);
  HistoryFiles files;
  files.skipped.push_back({"README", "its name does not end in .json", false});
  CHECK(trend_document(good, "h", files).judged.exit_code == 0);
  files.skipped.push_back({"cut.json", "it is cut", true});
  const Document document = trend_document(good, "h", files);
  CHECK(document.judged.exit_code == int(ErrorCode::incomplete));
  CHECK(document_text(document, {}).find("cut.json: it is cut") != std::string::npos);
}

TEST_CASE("a curve of characters shows the worst of those that share one", "[check]") {
  const auto curve = [](const std::vector<double>& values, size_t most) {
    std::vector<std::pair<int64_t, double>> points;
    for (const double value : values) points.emplace_back(0, value);
    return spark(points, most);
  };
  CHECK(curve({10, 10, 7.5, 5, 4.9}, 16) == "@@+._");
  CHECK(curve({10, 10, 10, 4}, 2) == "@_");
  CHECK(curve({10}, 16).empty());
  CHECK(curve({0, 0}, 16) == "@@");
}

}  // namespace check_trend_tests
