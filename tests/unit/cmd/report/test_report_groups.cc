// Reports of a run in groups (--split): rows, the slowest group, limits, and who ended the job.
#include "cmd/report/read.h"
#include "tests/unit/cmd/report/report_rows.h"

namespace report_report_groups_tests {

using namespace collctl;
using namespace collctl::cmd;
using namespace collctl::cmd::testing;

namespace {

// Two groups on two hosts, of three ranks and one; two sizes.
BenchReport in_groups() {
  BenchReport report = report_of({});
  report.spec.split = *parse_split("3");
  report.header->split = "3";
  report.header->hosts[0].ranks = {0, 1, 2};
  report.header->hosts.push_back({{HostId{1}, "other"}, {3}, {0}, {0}});
  report.header->groups = {{{0, 1, 2}, {"elsewhere"}}, {{3}, {"other"}}};
  const double times_us[2][2] = {{5, 7}, {30, 20}};
  for (int size = 0; size < 2; ++size)
    for (int group = 0; group < 2; ++group) {
      BenchRow one = row(size == 0 ? 8 : 1024, times_us[size][group], 1);
      one.group = group;
      one.group_ranks = group == 0 ? 3 : 1;
      one.slowest_group = times_us[size][group] > times_us[size][1 - group];
      report.rows.push_back(one);
    }
  return report;
}

bool has(const std::string& text, const std::string& words) {
  INFO(text);
  INFO(words);
  return text.find(words) != std::string::npos;
}

}  // namespace

TEST_CASE("the slowest group: how often, and by how much at the largest size", "[cmd][split]") {
  const SlowestGroups slowest = slowest_groups(in_groups());
  CHECK(slowest.measured == 2);
  REQUIRE(slowest.groups.size() == 2);
  CHECK(slowest.groups[0].times == 1);
  CHECK(slowest.largest_bytes == 1024);
  CHECK(slowest.at_largest == 0);
  CHECK(slowest.ratio == 1.5);
  CHECK(slowest_groups(report_of({row(8, 1, 1)})).measured == 0);
}

TEST_CASE("a table of groups has their column, marks the slowest and names them", "[cmd][split]") {
  const BenchReport report = in_groups();
  const TextTable table(report.spec, 4);
  CHECK(has(table.titles(), "group"));
  CHECK(!has(table.row(report.rows[0]), "slowest"));
  CHECK(table.row(report.rows[1]).ends_with("  slowest\n"));
  const std::string header = text_header(*report.header, false);
  CHECK(has(header, "# groups of --split 3: 2 at the same time\n"));
  CHECK(has(header, "#   group 0 (ranks 0-2): elsewhere\n#   group 1 (rank 3): other\n"));
  const Console plain(-1, -1);
  const std::string footer = text_footer(report, judge(report, {}, {}), plain);
  CHECK(has(footer, "at 1 KiB group 0 took 1.50 times as long as the fastest"));
}

TEST_CASE("JSON and CSV of groups have them in every row, and read back", "[cmd][split]") {
  const BenchReport report = in_groups();
  const std::string text = bench_json(report, judge(report, {}, {}));
  const json document = json::parse(text);
  CHECK(document["split"] == "3");
  CHECK(document["groups"][1]["ranks"] == json::array({3}));
  CHECK(document["groups"][0]["hosts"] == json::array({"elsewhere"}));
  CHECK(document["results"][3]["group"] == 1);
  CHECK(document["results"][3]["group_ranks"] == 1);
  CHECK(document["results"][2]["slowest_group"] == true);
  CHECK(document["slowest_groups"]["group"] == 0);
  CHECK(document["slowest_groups"]["ratio_to_fastest"] == 1.5);
  const std::string csv = bench_csv(report);
  CHECK(has(csv, ",group,slowest_group\n"));
  CHECK(has(csv, "allreduce,1,8,2,"));
  const auto again = read_report(text);
  REQUIRE(again);
  CHECK(again->report.spec.split.text() == "3");
  CHECK(again->report.rows.size() == 4);
  CHECK(again->report.rows[3].group == 1);
  CHECK(bench_json(again->report, judge(again->report, {}, {})) == text);
  for (const auto& [what, instead] : {std::pair{"\"split\":\"3\"", "\"split\":\"x\""},
                                      std::pair{"\"ranks\":[3]", "\"ranks\":[7]"}}) {
    std::string broken = text;
    broken.replace(broken.rfind(what), std::string(what).size(), instead);
    INFO(instead);
    CHECK(!read_report(broken));
  }
}

TEST_CASE("curves are drawn for each group, nccl-tests' rows are of the slowest", "[cmd][split]") {
  const BenchReport report = in_groups();
  const std::vector<Curve> curves = curves_of(report.rows);
  REQUIRE(curves.size() == 4);
  CHECK(curves[0].name == "group 0 out of place");
  std::string rows;
  for (const BenchRow& one : report.rows) rows += nccl_tests_row(report, one);
  CHECK(std::count(rows.begin(), rows.end(), '\n') == 2);
  CHECK(has(rows, " 7.00 "));
  CHECK(has(rows, "30.00"));
  CHECK(!has(rows, "20.00"));
  CHECK(has(nccl_tests_header(report), "#  Rank  3 Group  1 "));
}

TEST_CASE("a limit that a group misses names it", "[cmd][split]") {
  BenchReport report = in_groups();
  report.spec.collective = kernels::Collective::all_gather;  // sizes depend on the ranks
  report.rows[0].bytes = 12;
  Limits limits;
  limits.max_latency = limit(6, 8);
  const Verdict verdict = judge(report, limits, {});
  REQUIRE(verdict.reasons().size() >= 1);
  CHECK(verdict.exit_code() == 1);
  CHECK(has(verdict.reasons()[0].message, "of group 1 (rank 3)"));
}

TEST_CASE("who ended the job is named with the group", "[cmd][split]") {
  OutputOptions output;
  JobOutcome outcome;
  outcome.error = Error(ErrorCode::lost, "rank 3 (host other) was killed").blame(3);
  outcome.exit_code = 5;
  const auto feed = [](Reporter& reporter) {
    const BenchReport report = in_groups();
    reporter.on(*report.header);
    for (const BenchRow& one : report.rows) reporter.on(one);
  };
  Captured said = capture(output, outcome, feed);
  CHECK(said.code == 5);
  CHECK(has(said.err, "group 1 (rank 3): rank 3 (host other) was killed"));
  outcome.error->rank = -1;
  said = capture(output, outcome, feed);
  CHECK(!has(said.err, "group 1"));
}

}  // namespace report_report_groups_tests
