// One run against another: what counts as slower, what does not, and in which order it is told.
#include "base/format.h"
#include "cmd/report/compare.h"
#include "tests/unit/cmd/report/report_rows.h"

namespace report_diff_tests {

using namespace collctl;
using namespace collctl::cmd;
using namespace collctl::cmd::testing;

namespace {

bool has(const std::string& text, const std::string& what) {
  return text.find(what) != std::string::npos;
}

Finding figure(const std::string& name, const std::string& host, double number,
               const char* unit = "GB/s", const char* reason = "") {
  Finding finding{.name = name};
  finding.at = {.kind = SubjectKind::host, .host = base::saved_host(host)};
  finding.measured = format("{:.6g}", number);
  finding.unit = unit;
  finding.reason = reason;
  return finding;
}

ComparedRun check_of(std::vector<Finding> checks, PathMatrix paths = {}) {
  ComparedRun run{.name = "f", .title = "check", .judged = {}, .bench = {}, .paths = {}};
  run.judged.checks = std::move(checks);
  run.paths = std::move(paths);
  return run;
}

// A matrix of hosts with a NIC each; every path at `GBps`.
PathMatrix matrix(size_t hosts, double GBps) {
  PathMatrix paths;
  for (size_t i = 0; i < hosts; ++i) {
    paths.ends.push_back({base::saved_host(format("node{:02}", i + 1)), "eth0"});
    paths.GBps.emplace_back(hosts, GBps);
    paths.GBps[i][i] = kNotTried;
  }
  return paths;
}

struct Told {
  int code;
  std::string text;
  json all;
};
Told diff(const ComparedRun& was, const ComparedRun& is, double below = 0.8) {
  const Document made = diff_runs(was, is, below);
  return {made.judged.exit_code, document_text(made, {.width = 200}), json::parse(made.json)};
}

// The row of the list that is about `what`; null: there is none.
json row_of(const Told& told, const std::string& what, const char* list = "timings") {
  for (const json& row : told.all[list])
    if (row["what"] == what) return row;
  return nullptr;
}

}  // namespace

TEST_CASE("diff: a path that became slow is found among good ones", "[report]") {
  PathMatrix is = matrix(5, 0.5);
  is.GBps[0][2] = 0.0096;
  const Told told = diff(check_of({}, matrix(5, 0.479)), check_of({}, is));
  CHECK(told.code == 1);
  CHECK(told.all["timings"].size() == 20);
  CHECK(told.all["timings"][0]["what"] == "path node01 eth0 -> node03 eth0");
  CHECK(told.all["timings"][0]["slower"] == true);
  CHECK(told.all["timings"][1]["slower"] == false);
  CHECK(has(told.text, "\n1 of 20 timings are slower"));
  CHECK(has(told.text, "\n19 paths within 0.8 of what they were are not shown"));
  // A path that nothing passes any more has no ratio to speak of, and is the worst of all.
  is.GBps[3][1] = 0;
  const Told dead = diff(check_of({}, matrix(5, 0.479)), check_of({}, is));
  CHECK(dead.all["timings"][0]["what"] == "path node04 eth0 -> node02 eth0");
  CHECK(has(dead.text, "\n2 of 20 timings are slower"));
  // One that had nothing before cannot be slower.
  CHECK(diff(check_of({}, is), check_of({}, matrix(5, 0.479))).code == 0);
}

TEST_CASE("diff: paths of one host and direction are one line", "[report]") {
  PathMatrix is = matrix(5, 1);
  for (size_t to = 0; to < 5; ++to)
    if (to != 3) is.GBps[3][to] = 0.1;
  const Told told = diff(check_of({}, matrix(5, 1)), check_of({}, is));
  CHECK(told.code == 1);
  CHECK(has(told.text, "paths from node04, 4 of 4"));
  CHECK_FALSE(has(told.text, "paths to"));
  CHECK_FALSE(has(told.text, "path node04 eth0 ->"));
  REQUIRE(told.all["checks"].size() == 1);
  CHECK(told.all["checks"][0]["measured"] == 0.1);
  CHECK(has(told.text, "4 of 20 timings are slower"));
}

TEST_CASE("diff: figures that scatter are no findings, but all of a kind slower is", "[report]") {
  // Two healthy checks of four hosts on a machine that others used as well.
  PathMatrix was = matrix(4, 1), is = was;
  was.GBps = {{-1, 0.379, 0.664, 0.166},
              {0.588, -1, 0.134, 0.365},
              {0.3, 0.359, -1, 0.452},
              {0.548, 0.473, 0.281, -1}};
  is.GBps = {{-1, 0.456, 0.319, 0.138},
             {1.143, -1, 0.174, 0.203},
             {0.491, 0.811, -1, 0.45},
             {0.492, 0.515, 0.423, -1}};
  const Told healthy = diff(check_of({}, was), check_of({}, is));
  CHECK(healthy.code == 0);
  CHECK(has(healthy.text, "\npaths scatter so much that less than "));
  // The same with one of them at a twentieth, and with all at a fifth.
  is.GBps[2][0] /= 20;
  const Told one = diff(check_of({}, was), check_of({}, is));
  CHECK(one.code == 1);
  CHECK(has(one.text, "1 of 12 timings are slower"));
  for (auto& row : is.GBps)
    for (double& value : row)
      if (value > 0) value /= 5;
  const Told all = diff(check_of({}, was), check_of({}, is));
  CHECK(all.code == 1);
  CHECK(has(all.text, "\npaths "));
}

TEST_CASE("diff: hosts' figures one by one, and alone", "[report]") {
  const auto hosts = [](double first, double second, double third, double fourth) {
    return check_of(
        {figure("node/memory", "node01", first), figure("node/memory", "node02", second),
         figure("node/memory", "node03", third), figure("node/memory", "node04", fourth)});
  };
  // Half of them at half.
  const Told half = diff(hosts(10, 10, 10, 10), hosts(10, 5, 10, 5));
  CHECK(half.code == 1);
  CHECK(row_of(half, "node/memory node02")["slower"] == true);
  CHECK(row_of(half, "node/memory node04")["slower"] == true);
  CHECK(row_of(half, "node/memory node01")["slower"] == false);
  // All of them are one line, and the verdict counts each.
  const Told all = diff(hosts(10, 9, 10, 11), hosts(5, 4.6, 4.8, 5.4));
  CHECK(all.code == 1);
  CHECK(has(all.text, "\nnode/memory  "));
  CHECK_FALSE(has(all.text, "node/memory node01"));
  CHECK(has(all.text, "4 of 4 timings are slower"));
  // One figure has no scatter: `below` alone holds.
  const auto alone = [](double value) {
    return check_of({figure("cluster/allreduce", "", value)});
  };
  CHECK(diff(alone(10), alone(7.9)).code == 1);
  CHECK(diff(alone(10), alone(8.1)).code == 0);
}

TEST_CASE("diff: what a busy host spoilt counts below a fifth alone", "[report]") {
  const auto busy = [](double value, const char* reason) {
    return check_of({figure("cluster/allreduce", "", value, "GB/s", reason)});
  };
  for (const auto& [first, second] :
       {std::pair("", "busy"), std::pair("busy", ""), std::pair("busy", "busy")}) {
    const Told healthy = diff(busy(10, first), busy(3, second));
    CHECK(healthy.code == 0);
    CHECK(has(healthy.text, "\n1 figures were spoilt, as others had the host meanwhile"));
    CHECK(healthy.all["timings"][0]["spoilt"] == true);
    CHECK(diff(busy(10, first), busy(1.9, second)).code == 1);
  }
  CHECK(diff(busy(10, ""), busy(3, "")).code == 1);
  // In a matrix all paths of the host.
  PathMatrix was = matrix(3, 1), is = matrix(3, 1);
  is.busy = {base::saved_host("node02")};
  is.GBps[0][1] = is.GBps[1][2] = 0.4;
  CHECK(diff(check_of({}, was), check_of({}, is)).code == 0);
  is.GBps[0][2] = 0.4;
  CHECK(diff(check_of({}, was), check_of({}, is)).code == 1);
  // In a collective all rows, unless it was the host's own limit.
  const auto bench = [](double busbw, std::optional<bool> own_limit) {
    ComparedRun run = check_of({});
    run.bench = report_of({row(8, 5, busbw), row(16, 5, busbw)});
    if (own_limit) {
      run.bench->closing = BenchClosing{};
      run.bench->closing->busy.push_back({base::saved_host("node01"), "others", *own_limit});
    }
    return run;
  };
  CHECK(diff(bench(1, {}), bench(0.4, false)).code == 0);
  CHECK(diff(bench(1, {}), bench(0.4, true)).code == 1);
  CHECK(diff(bench(1, {}), bench(0.4, {})).code == 1);
}

TEST_CASE("diff: single connections stand apart and are not judged", "[report]") {
  const auto reach = [](double one, double other) {
    return check_of({figure("doctor/reach", "node01", one, "us"),
                     figure("doctor/reach", "node02", other, "us"),
                     figure("node/memory", "node01", 10)});
  };
  const Told told = diff(reach(40, 50), reach(400, 25));
  CHECK(told.code == 0);
  CHECK(told.all["timings"].size() == 1);
  CHECK(row_of(told, "doctor/reach node01", "once")["ratio"] == 0.1);
  CHECK(has(told.text,
            "\n2 single connections are not judged: ratios from 0.10 to 2.00, median 1.05"));
  CHECK_FALSE(has(told.text, "doctor/reach"));
  // One that is not there any more was not tested.
  CHECK(diff(reach(40, 50), check_of({figure("node/memory", "node01", 10)})).code == 8);
}

TEST_CASE("diff: a latency that is twice as long is slower", "[report]") {
  const auto barrier = [](double us) {
    return check_of({figure("cluster/barrier", "", us, "us"),
                     figure("doctor/reach", "node01", us, "us"),
                     figure("node/memory", "node01", 10)});
  };
  CHECK(diff(barrier(20), barrier(30)).code == 0);
  const Told told = diff(barrier(20), barrier(200));
  CHECK(told.code == 1);
  CHECK(has(told.text, "cluster/barrier"));
}

TEST_CASE("diff: failures come first, then the worst ratio", "[report]") {
  Finding failed{.name = "counters/errors"};
  failed.fail(ErrorCode::failed, "12 more");
  const Told told =
      diff(check_of({figure("a", "", 10), figure("b", "", 10), figure("c", "", 10)}),
           check_of({figure("a", "", 6), figure("b", "", 11), figure("c", "", 3), failed}));
  CHECK(told.code == 1);
  const size_t came = told.text.find("failed:\n  counters/errors: 12 more");
  REQUIRE(came != std::string::npos);
  CHECK(came < told.text.find("\nwhat "));
  CHECK(told.all["timings"][0]["what"] == "c");
  CHECK(told.all["timings"][1]["what"] == "a");
  CHECK(told.all["timings"][2]["what"] == "b");
  const size_t first = told.text.find("1 failed that did not before");
  REQUIRE(first != std::string::npos);
  CHECK(first < told.text.rfind("2 of 3 timings are slower"));
  CHECK(told.all["checks"][0]["name"] == "counters/errors");
}

TEST_CASE("diff: the matrix stands for its median", "[report]") {
  const Finding median = figure("pairs/paths", "", 1), low = figure("pairs/paths", "", 0.3);
  CHECK(diff(check_of({median}, matrix(3, 1)), check_of({low}, matrix(3, 1))).code == 0);
  CHECK(diff(check_of({median}), check_of({low})).code == 1);
}

TEST_CASE("paths: busy hosts are kept with them", "[report]") {
  PathMatrix paths = matrix(2, 1);
  paths.busy = {base::saved_host("node02")};
  const auto read = record_of<PathMatrix>(json_of(paths));
  REQUIRE(read);
  CHECK(read->busy == paths.busy);
  PathMatrix more = matrix(2, 1);
  more.busy = {base::saved_host("node01"), base::saved_host("node02")};
  add_paths(paths, more);
  CHECK(paths.busy == std::vector<Host>{base::saved_host("node02"), base::saved_host("node01")});
}

}  // namespace report_diff_tests
