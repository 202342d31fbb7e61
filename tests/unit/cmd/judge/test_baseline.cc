// Timings of earlier runs: what is a machine, what is slower, and what is not compared.
#include "cmd/judge/baseline.h"
#include "tests/unit/cmd/report/report_rows.h"

namespace judge_baseline_tests {

using namespace collctl;
using namespace collctl::cmd;
using namespace collctl::cmd::testing;

namespace {

BenchReport run_of(double us) {
  BenchReport report = report_of({row(8, us, 0.01)});
  report.rows[0].in_place.measured = false;
  report.header->hosts[0].machine = "Some CPU, 4 cores";
  return report;
}

Baseline of_runs(std::initializer_list<double> times) {
  Baseline baseline;
  baseline.file = "b.json";
  for (const double us : times) CHECK(add_samples(baseline, run_of(us)));
  return baseline;
}

Verdict compared_with(const Baseline& baseline, const BenchReport& report) {
  Limits limits;
  limits.baseline = std::make_shared<const Baseline>(baseline);
  return judge(report, limits, {});
}

}  // namespace

TEST_CASE("a machine is its ranks, what they compute with and their links, not its name",
          "[judge]") {
  BenchHeader header = *run_of(5).header;
  CHECK(machine_signature(header) == "4 CPU ranks: 4 on Some CPU, 4 cores; via SHM");
  header.hosts[0].host.name = "another";
  CHECK(machine_signature(header) == machine_signature(*run_of(5).header));
  header.hosts.push_back(header.hosts[0]);
  header.links.push_back({0, 3, 4, "NET/Socket"});
  header.ranks = 8;
  CHECK(machine_signature(header) ==
        "8 CPU ranks: 2 hosts with 4 on Some CPU, 4 cores; via NET/Socket, SHM");
}

TEST_CASE("slower is what exceeds the usual spread of the runs", "[judge]") {
  CHECK(most_us({}) == 0);
  CHECK(most_us({100}) == 130);
  CHECK(most_us({100, 200}) == 195);
  CHECK(std::abs(most_us({100, 100, 100}) - 110) < 1e-9);  // 10 % at least
  // Median 100, deviations 0, 10, 10, 20, 20: their median is 10.
  CHECK(std::abs(most_us({80, 90, 100, 110, 120}) - (100 + 3 * 1.4826 * 10)) < 1e-9);

  const Baseline steady = of_runs({100, 101, 99});
  CHECK(compared_with(steady, run_of(109)).ok());
  const Verdict slow = compared_with(steady, run_of(125));
  CHECK(slow.exit_code() == 1);
  REQUIRE(slow.reasons().size() == 1);
  CHECK(slow.reasons()[0].code == "slower-than-baseline");
  CHECK(slow.reasons()[0].message ==
        "allreduce 8 B float32 sum, out of place: 125.0 us, 25 % above the 100.0 us of 3 runs in "
        "b.json; up to 10 % is usual");
  CHECK(compared_with(steady, run_of(1)).ok());
}

TEST_CASE("another machine, and what a baseline does not have, is never green", "[judge]") {
  const Baseline baseline = of_runs({100});
  BenchReport other = run_of(100);
  other.header->hosts[0].machine = "Other CPU, 4 cores";
  const Verdict verdict = compared_with(baseline, other);
  CHECK(verdict.exit_code() == 8);
  REQUIRE(verdict.reasons().size() == 1);
  CHECK(
      verdict.reasons()[0].message ==
      "not compared: b.json has no timings of this machine (4 CPU ranks: 4 on Other CPU, 4 cores; "
      "via SHM); it has those of 4 CPU ranks: 4 on Some CPU, 4 cores; via SHM");
  BenchReport more = run_of(100);
  more.rows.push_back(row(64, 5, 1));
  CHECK(compared_with(baseline, more).exit_code() == 8);
  BenchReport ring = run_of(100);
  ring.spec.algorithms = {"ring"};  // was asked for: another measurement
  CHECK(compared_with(baseline, ring).exit_code() == 8);
}

TEST_CASE("a baseline comes back from its file, with the newest samples", "[judge]") {
  Baseline baseline;
  for (int i = 1; i <= 40; ++i) CHECK(add_samples(baseline, run_of(i)));
  BenchReport wrong = run_of(5);
  wrong.rows[0].out_of_place.wrong = 1;
  CHECK_FALSE(add_samples(baseline, wrong));
  const auto read = parse_baseline("b", baseline_json(baseline));
  REQUIRE(read.ok());
  REQUIRE(read->machines.size() == 1);
  REQUIRE(read->machines[0].timings.size() == 1);
  CHECK(read->machines[0].timings[0].samples_us.size() == kMostSamples);
  CHECK(read->machines[0].timings[0].samples_us.front() == 9);
  CHECK(read->machines[0].timings[0].samples_us.back() == 40);
}

TEST_CASE("what is no baseline is refused, with its name", "[judge]") {
  for (
      const char* text :
      {"", "[]", "{}", R"({"schema":"collctl.bench/1","machines":[]})",
       R"({"schema":"collctl.baseline/1"})",
       R"({"schema":"collctl.baseline/1","machines":[{"signature":"a","timings":[{"what":"x","samples_us":[-1]}]}]})",
       R"({"schema":"collctl.baseline/1","machines":[{"signature":"a","timings":[{"what":"x","samples_us":["1"]}]}]})"}) {
    const auto read = parse_baseline("b", text);
    REQUIRE_FALSE(read.ok());
    CHECK(read.error().code == ErrorCode::usage);
    CHECK(read.error().chain().rfind("b: ", 0) == 0);
  }
}

}  // namespace judge_baseline_tests
