// The verdict and its exit code: the worst of all findings and of the error that ended the job, and
// never a pass beside an error, whatever the report.
#include <algorithm>

#include "cmd/judge/finding.h"
#include "cmd/judge/json.h"
#include "cmd/rails/rails.h"
#include "cmd/window_test/window_test.h"
#include "tests/unit/cmd/report/report_rows.h"

namespace judge_verdict_tests {

using namespace collctl;
using namespace collctl::cmd;
using namespace collctl::cmd::testing;

namespace {

// cli.md: 2 before all, then 70, 7, 5, 6, 4, 3, 1, 8.
const std::vector<int> kOrder{2, 70, 7, 5, 6, 4, 3, 1, 8};

Finding failure(int code) {
  Finding finding{.name = "x"};
  finding.fail(ErrorCode(code), "why");
  return finding;
}

Error error(int code) {
  return {ErrorCode(code), "the job's own error"};
}

const Error kLost(ErrorCode::lost, "rank 1 was killed");

std::string verdict_json(const Verdict& verdict) {
  JsonWriter json;
  json.begin_object();
  write_verdict(json, verdict);
  return json.end_object().take();
}

}  // namespace

TEST_CASE("the exit code: of every two the worse, wherever they come from", "[judge]") {
  for (size_t a = 0; a < kOrder.size(); ++a)
    for (size_t b = 0; b < kOrder.size(); ++b) {
      const int one = kOrder[a], two = kOrder[b], worst = kOrder[std::min(a, b)];
      INFO(one << " and " << two);
      CHECK(Verdict(std::vector{failure(one), failure(two)}, {}).exit_code() == worst);
      CHECK(Verdict(std::vector{failure(one)}, error(two)).exit_code() == worst);
      Verdict written(std::vector{failure(one)}, {});
      written.worsen(error(two));
      CHECK(written.exit_code() == worst);
      Finding both = failure(one);
      both.fail(ErrorCode(two), "again");
      CHECK(int(both.code) == worst);
      CHECK(both.message == "again");
    }
  CHECK(Verdict({}, {}).exit_code() == 0);
}

TEST_CASE("the exit code: a signal is 128 and its number, whatever was found", "[judge]") {
  Error stopped(ErrorCode::interrupted, "ended by SIGTERM");
  stopped.signal = 15;
  CHECK(Verdict({}, stopped).exit_code() == 143);
  CHECK(Verdict(std::vector{failure(7)}, stopped).exit_code() == 143);
}

TEST_CASE("what counts: failures, and what should have been tested", "[judge]") {
  Finding finding{.name = "x"};
  CHECK(Verdict(std::vector{finding}, {}).ok());
  finding.status = FindingStatus::warn;
  CHECK(Verdict(std::vector{finding}, {}).ok());
  finding.status = FindingStatus::not_tested;  // there is nothing to test in a job like this
  CHECK(Verdict(std::vector{finding}, {}).ok());
  finding.leave_out("no memory");
  const Verdict missing(std::vector{finding}, {});
  CHECK(missing.exit_code() == 8);
  CHECK(missing.incomplete());
  REQUIRE(missing.reasons().size() == 1);
  CHECK(missing.reasons()[0].code == "not-tested");
  // After a job broke off that is no news.
  CHECK(Verdict(std::vector{finding}, kLost).reasons().empty());
  CHECK_FALSE(Verdict(std::vector{finding}, kLost).incomplete());
  // A failure counts also where nobody said to which code it leads.
  finding = {.name = "x", .status = FindingStatus::fail};
  CHECK(Verdict(std::vector{finding}, {}).exit_code() == 1);
}

TEST_CASE("a summary takes the place of the findings' own words", "[judge]") {
  const Verdict verdict(std::vector{failure(1), failure(4)}, {}, {"shm failed on 2 hosts"});
  REQUIRE(verdict.reasons().size() == 1);
  CHECK(verdict.reasons()[0].message == "shm failed on 2 hosts");
  CHECK(verdict.reasons()[0].code == "launch");
  Judgement judged;
  judged.verdict = verdict;
  CHECK(verdict_words(judged, 2, "shm failed on 2 hosts") ==
        "FAILED (launch): shm failed on 2 hosts");
}

TEST_CASE("many reasons of one kind are not all listed, those of another kind are", "[judge]") {
  std::vector<Finding> many(100, failure(1));
  many.push_back(failure(7));
  const Verdict verdict(many, {});
  CHECK(verdict.reasons().size() == Verdict::kMostReasons + 1);
  CHECK(verdict.reasons().back().code == "wrong-data");
  CHECK(verdict.exit_code() == 7);
}

TEST_CASE("the verdict of a job that broke off is no pass, in text and JSON", "[judge]") {
  const Verdict verdict({}, kLost);
  CHECK_FALSE(verdict.ok());
  Judgement judged;
  judged.verdict = verdict;
  CHECK(verdict_words(judged) == "FAILED, the run broke off");
  const json written = json::parse(verdict_json(verdict));
  CHECK(written["verdict"]["ok"] == false);
  CHECK(written["verdict"]["reasons"][0]["code"] == "lost");
  CHECK(written["verdict"]["reasons"][0]["message"] == "rank 1 was killed");
  CHECK(json::parse(verdict_json(Verdict({}, {})))["verdict"] ==
        json{{"ok", true}, {"reasons", json::array()}});
}

// Each of these said "passed" of the rows, paths or stages that it had.
TEST_CASE("no report of any command passes a job that broke off", "[judge]") {
  std::vector<std::string> reports;
  const BenchReport bench = report_of({row(8, 5, 0.01)});
  const Verdict of_bench = judge(bench, {}, kLost);
  CHECK(of_bench.exit_code() == 5);
  const Console console(-1, -1);
  reports.push_back(text_footer(bench, of_bench, console));
  reports.push_back(bench_json(bench, of_bench));
  reports.push_back(jsonl_end(of_bench));
  reports.push_back(nccl_tests_footer(bench, of_bench));

  RailsReport rails;
  for (const char* name : {"a", "b"}) {
    RailsHost& host = rails.hosts.emplace_back();
    host.host = base::saved_host(name);
    host.nics.push_back({.name = "eth0", .link = "Ethernet"});
  }
  rails.pairs = {{.from = 0, .to = 1, .cells = {{.end = RailEnd::ok, .GBps = 1}}},
                 {.from = 1, .to = 0, .cells = {{.end = RailEnd::ok, .GBps = 1}}}};
  const RailsFindings found = judge_rails(rails, 0.7);
  REQUIRE(found.verdict({}).ok());
  const Verdict of_rails = found.verdict(kLost);
  CHECK(of_rails.exit_code() == 5);
  reports.push_back(
      document_text(rails_document(rails, found, rails_json(rails, found, of_rails)), {}));
  reports.push_back(rails_json(rails, found, of_rails));

  WindowReport window;
  window.header = header_of(2);
  window.checks = {{.name = "aliasing"}};
  REQUIRE(judge(window, {}, {}).ok());
  const Verdict of_window = judge(window, {}, kLost);
  CHECK(of_window.exit_code() == 5);
  reports.push_back(document_text(window_document(window, window_json(window, of_window)), {}));
  reports.push_back(window_json(window, of_window));

  for (const std::string& text : reports) {
    INFO(text);
    CHECK(text.find("passed") == std::string::npos);
    CHECK(text.find("concluded") == std::string::npos);
    CHECK(text.find("\"ok\":true") == std::string::npos);
  }
  CHECK(json::parse(rails_json(rails, found, of_rails))["code"] == 5);
  CHECK(json::parse(rails_json(rails, found, of_rails))["measured"]["good"] == 2);
}

TEST_CASE("a finding comes back from its JSON as it was", "[judge]") {
  Finding finding{.name = "rail",
                  .at = {.kind = SubjectKind::link,
                         .host = base::saved_host("a"),
                         .device = "mlx5_0:1",
                         .peer = base::saved_host("b"),
                         .peer_device = "mlx5_1:1",
                         .rank = 3,
                         .peer_rank = 0}};
  finding.fail(ErrorCode::failed, "slow", "look at it");
  finding.reason = "slow";
  finding.measured = "12.5";
  finding.expected = "20";
  finding.unit = "GB/s";
  finding.basis = "the median";
  finding.n = 2;
  finding.of = 7;
  finding.odd = true;
  for (const Finding& each : {finding, Finding{.name = "bare"}}) {
    const std::string text = json_of(each);
    INFO(text);
    const auto back = record_of<Finding>(text);
    REQUIRE(back);
    CHECK(back->at == each.at);
    CHECK(json_of(*back) == text);
    CHECK(back->status == each.status);
    CHECK(back->code == each.code);
    CHECK(back->measured == each.measured);
    CHECK(back->of == each.of);
  }
  const json written = json::parse(json_of(finding));
  CHECK(written["measured"] == 12.5);
  CHECK(written["n"] == 2);
  CHECK(written["of"] == 7);
  // More of fewer is no count.
  json wrong = written;
  wrong["n"] = 8;
  CHECK_FALSE(record_of<Finding>(wrong.dump()));
  wrong["n"] = 7;
  CHECK(record_of<Finding>(wrong.dump()));
  wrong["status"] = "good";
  CHECK_FALSE(record_of<Finding>(wrong.dump()));
}

TEST_CASE("findings in words: what is alike once, under the hosts that it is true of", "[judge]") {
  Document document{.title = "t",
                    .heading = "t",
                    .parts = {},
                    .judged = {},
                    .hosts = {},
                    .summary = {},
                    .json = "{}",
                    .rows = "",
                    .svg = ""};
  std::vector<Finding>& findings = document.judged.checks;
  for (int host = 0; host < 24; ++host) {
    Finding& finding = findings.emplace_back();
    finding.name = "shm";
    finding.at = {.kind = SubjectKind::host,
                  .host = {HostId(int32_t(host)), format("n{:02}", host)}};
    finding.fail(ErrorCode::failed, host < 12 ? "too small" : format("too small by {}", host),
                 "enlarge it");
    document.hosts.push_back(finding.at.host.name);
  }
  findings.push_back({.name = "fine"});
  findings.push_back({.name = "none", .status = FindingStatus::not_tested, .message = "not here"});
  findings.emplace_back().leave_out("7 pairs");
  findings.back().name = "reach";
  document.judged.verdict = Verdict(findings, std::nullopt);
  const std::string text = document_text(document, {});
  INFO(text);
  CHECK(
      text.starts_with("t\n\nfailed:\n  shm: n[00-11]: too small\n  shm: n12: too small by 12\n"));
  CHECK(text.find("shm: n20: too small by 20") != std::string::npos);
  CHECK(text.find("n21: ") == std::string::npos);
  CHECK(text.find("    -> enlarge it\n  shm: and 3 more\n\nnot tested:\n  reach: 7 pairs\n") !=
        std::string::npos);
  CHECK(text.find("fine") == std::string::npos);
  CHECK(text.find("not here") == std::string::npos);
  CHECK(text.ends_with("\nverdict: FAILED: 24 of 24 hosts (n[00-23])\n"));
  CHECK(document_text(document, {.whole = true}).find("n23: too small by 23") != std::string::npos);
}

TEST_CASE("a cause is told once: who is at fault has the remedy of the finding that says so",
          "[judge]") {
  Document document{.title = "t",
                    .heading = "t",
                    .parts = {},
                    .judged = {},
                    .hosts = {"a", "b"},
                    .summary = {},
                    .json = "{}",
                    .rows = "",
                    .svg = ""};
  const Host host = base::saved_host("a");
  Finding finding{.name = "blame", .at = {.kind = SubjectKind::nic, .host = host, .device = "e"}};
  finding.fail(ErrorCode::failed, "nic a e: it is slow", "change the cable");
  document.judged.checks = {finding};
  document.judged.culprits = {{SubjectKind::nic, "a e", 1, "it is slow", false, host}};
  document.judged.verdict = Verdict(document.judged.checks, std::nullopt);
  CHECK(document_text(document, {}) ==
        "t\n\nat fault:\n  nic a e: it is slow\n    -> change the cable\n\n"
        "verdict: FAILED: 1 of 2 hosts (a)\n");
  // Another one of the same NIC stays.
  document.judged.checks.push_back(finding);
  document.judged.checks.back().message = "it is hot";
  CHECK(document_text(document, {}).find("failed:\n  blame: a: it is hot\n") != std::string::npos);
}

}  // namespace judge_verdict_tests
