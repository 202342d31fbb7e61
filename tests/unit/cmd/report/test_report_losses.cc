// Reports of runs that went on without lost ranks (--on-loss shrink).
#include "cmd/report/read.h"
#include "tests/unit/cmd/report/report_rows.h"

namespace report_report_losses_tests {

using namespace collctl;
using namespace collctl::cmd;
using namespace collctl::cmd::testing;

namespace {

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

const LostRanks kLost{
    {2}, {HostId{1}, "b"}, "rank 2 (pid 7, host b) was killed by signal 9", "look for why"};

// Three ranks; after the first row two.
BenchReport after_a_loss() {
  BenchReport report;
  report.spec.collective = kernels::Collective::all_reduce;
  report.header.emplace();
  report.header->collective = report.spec.collective;
  report.header->version = "0.1";
  report.header->ranks = 3;
  report.rows = {row(8, 1, 2), row(16, 2, 3)};
  report.rows[1].ranks = 2;
  report.rows[1].number = 1;
  report.losses = {{kLost, 2, 1}};
  return report;
}

}  // namespace

TEST_CASE("a loss is never a pass: code 8, who, why and what to do", "[cmd][losses]") {
  const BenchReport report = after_a_loss();
  const Verdict verdict = judge(report, {}, {});
  CHECK(verdict.exit_code() == 8);
  CHECK(verdict.incomplete());
  REQUIRE(verdict.reasons().size() == 1);
  const Reason& reason = verdict.reasons()[0];
  CHECK(reason.code == "rank-lost");
  CHECK(reason.rank == 2);
  CHECK(reason.host == "b");
  CHECK(has(reason.message, "rank 2 (pid 7, host b) was killed by signal 9"));
  CHECK(has(reason.message, "after 1 row 2 of 3 ranks went on"));
  CHECK(has(reason.message, "look for why"));
  CHECK(!has(reason.message, "root"));
}

TEST_CASE("wrong data of those left is still the worse", "[cmd][losses]") {
  BenchReport report = after_a_loss();
  report.rows[1].out_of_place.wrong = 3;
  const Verdict verdict = judge(report, {}, {});
  CHECK(verdict.exit_code() == 7);
  CHECK(has(verdict.reasons()[0].message, "of 2 ranks"));
}

TEST_CASE("a lost root is said to be missing", "[cmd][losses]") {
  BenchReport report = after_a_loss();
  report.spec.collective = kernels::Collective::broadcast;
  report.spec.roots = {0};
  CHECK(!has(judge(report, {}, {}).reasons()[0].message, "root"));
  for (const std::vector<int>& roots : {std::vector<int>{2}, std::vector<int>{-1}}) {
    report.spec.roots = roots;
    CHECK(has(judge(report, {}, {}).reasons()[0].message, "nothing more was measured of root 2"));
  }
}

TEST_CASE("a limit is for all ranks: rows of fewer neither pass nor miss it", "[cmd][losses]") {
  const BenchReport report = after_a_loss();
  Limits limits;
  limits.max_latency = Limit{.value = 1.5, .at_bytes = 16};
  const Verdict verdict = judge(report, limits, {});
  CHECK(verdict.exit_code() == 8);
  CHECK(has(verdict.reasons()[0].message, "no timing at 16 B"));
}

TEST_CASE("JSON says who is lost and who measured what, and reads back", "[cmd][losses]") {
  const BenchReport report = after_a_loss();
  const std::string text = bench_json(report, judge(report, {}, {}));
  const json document = json::parse(text);
  REQUIRE(document["lost"].size() == 1);
  CHECK(document["lost"][0]["ranks"] == json::array({2}));
  CHECK(document["lost"][0]["host"] == "b");
  CHECK(document["lost"][0]["why"] == kLost.why);
  CHECK(document["lost"][0]["remedy"] == "look for why");
  CHECK(document["lost"][0]["ranks_left"] == 2);
  CHECK(document["lost"][0]["rows_before"] == 1);
  CHECK(!document["results"][0].contains("ranks"));
  CHECK(document["results"][1]["ranks"] == 2);
  CHECK(document["verdict"]["reasons"][0]["code"] == "rank-lost");
  const auto again = read_report(text);
  REQUIRE(again);
  CHECK(again->exit_code == 8);
  CHECK(bench_json(again->report, judge(again->report, {}, {})) == text);
  CHECK(has(bench_csv(report), "allreduce,3,8,"));
  CHECK(has(bench_csv(report), "allreduce,2,16,"));
  const std::string page = document_text(bench_document(report, judge(report, {}, {}), text), {});
  const size_t line =
      page.find("# lost: rank 2 (pid 7, host b) was killed by signal 9; 2 ranks go on");
  REQUIRE(line != std::string::npos);
  CHECK(page.find("\n        16 ") > line);
  CHECK(curves_of(report.rows)[0].name == "all ranks out of place");
  CHECK(curves_of(report.rows).back().name == "2 ranks in place");
}

TEST_CASE("a report counts what is done, and tells of a loss where it happens", "[cmd][losses]") {
  Folder folder;
  OutputOptions output;
  output.files = {{folder.file("x.jsonl"), Format::jsonl}};
  const BenchReport report = after_a_loss();
  Console console(-1, -1);
  Reporter reporter(console, output, report.spec, true);
  CHECK(reporter.done() == 0);
  reporter.on(*report.header);
  BenchRow first = report.rows[0];
  first.number = 4;  // some could not be served
  reporter.on(first);
  CHECK(reporter.done() == 5);
  reporter.shrunk({{kLost}, 2});
  reporter.on(report.rows[1]);
  CHECK(reporter.finish({}) == 8);
  std::vector<std::string> records;
  std::istringstream lines(content(folder.file("x.jsonl")));
  for (std::string line; std::getline(lines, line);)
    records.push_back(json::parse(line)["record"].get<std::string>());
  CHECK(records == std::vector<std::string>{"header", "result", "lost", "result", "verdict"});
}

TEST_CASE("what only some groups have had their rows of is measured again", "[cmd][losses]") {
  BenchReport report = after_a_loss();
  report.header->groups = {{{0}, {"a"}}, {{1, 2}, {"a", "b"}}};
  Console console(-1, -1);
  Reporter reporter(console, {}, report.spec, true);
  reporter.on(*report.header);
  CHECK(reporter.groups() == std::vector<std::vector<int>>{{0}, {1, 2}});
  const auto say = [&](uint64_t number, int group) {
    BenchRow told = report.rows[0];
    told.number = number;
    told.group = group;
    reporter.on(told);
  };
  say(0, 0);
  say(0, 1);
  say(1, 0);
  reporter.shrunk({{kLost}, 2});
  CHECK(reporter.done() == 1);  // group 1 has no row 1
  say(1, 0);
  say(1, 1);
  CHECK(reporter.done() == 2);
  // From here on group 0 is no more.
  reporter.shrunk({{{{0}, {HostId{0}, "a"}, "rank 0 was killed", ""}}, 1});
  say(2, 1);
  reporter.shrunk({{}, 1});
  CHECK(reporter.done() == 3);
}

}  // namespace report_report_losses_tests
