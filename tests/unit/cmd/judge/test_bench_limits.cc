// Thresholds: where they lie, what they are held against, and what a finding says of it.
#include "tests/unit/cmd/report/report_rows.h"

namespace judge_bench_limits_tests {

using namespace collctl;
using namespace collctl::cmd;
using namespace collctl::cmd::testing;

namespace {

// One timing at each of 8 bytes and 1 GiB.
BenchReport measured(double time_us, double busbw) {
  BenchReport report = report_of({row(8, time_us, busbw), row(1u << 30, time_us, busbw)});
  for (BenchRow& each : report.rows) each.in_place.measured = false;
  return report;
}

}  // namespace

TEST_CASE("a measured value that equals the limit passes", "[judge]") {
  const BenchReport report = measured(5, 3.5);
  Limits limits;
  limits.min_busbw = limit(3.5);
  limits.max_latency = limit(5);
  const auto findings = findings_of(report, limits);
  REQUIRE(findings.size() == 2);
  for (const Finding& finding : findings) CHECK(finding.status == FindingStatus::pass);
  CHECK(judge(report, limits, {}).exit_code() == 0);
  limits.min_busbw = limit(3.5000001);
  CHECK(judge(report, limits, {}).exit_code() == 1);
  limits.min_busbw = limit(3.5);
  limits.max_latency = limit(4.9999999);
  CHECK(judge(report, limits, {}).exit_code() == 1);
}

TEST_CASE("a limit is held against every timing at its size, and only there", "[judge]") {
  BenchReport report = measured(5, 3.5);
  report.rows[0].out_of_place.busbw_GBps = 0.1;  // of 8 bytes
  Limits limits;
  limits.min_busbw = limit(3);  // at the largest
  CHECK(judge(report, limits, {}).ok());
  limits.min_busbw = limit(3, 8);
  CHECK(judge(report, limits, {}).exit_code() == 1);
  report.rows[1].in_place = timing(9, 2.9);
  limits.min_busbw = limit(3);
  const Verdict verdict = judge(report, limits, {});
  REQUIRE(verdict.reasons().size() == 1);
  CHECK(verdict.reasons()[0].message.find(" in place: ") != std::string::npos);
  // A latency is asked of the smallest.
  report.rows[1].out_of_place.time_us = 1000;
  limits = {};
  limits.max_latency = limit(5);
  CHECK(judge(report, limits, {}).ok());
}

TEST_CASE("a finding of a limit says what was measured, what was expected, and by whom",
          "[judge]") {
  Limits limits;
  limits.min_busbw = limit(4);
  const auto findings = findings_of(measured(5, 3.5), limits);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].name == "min-busbw");
  CHECK(findings[0].status == FindingStatus::fail);
  CHECK(findings[0].measured == "3.5");
  CHECK(findings[0].expected == "4");
  CHECK(findings[0].unit == "GB/s");
  CHECK(findings[0].basis == "--min-busbw");
  CHECK(findings[0].reason == "below-min-busbw");
}

TEST_CASE("wrong elements are counted of all, faults name their rank", "[judge]") {
  BenchReport report = measured(5, 3.5);
  report.rows[0].out_of_place.wrong = 1;
  auto findings = findings_of(report, {});
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].n == 1);
  CHECK(findings[0].of == 2);  // 8 bytes of float32
  CHECK(findings[0].code == ErrorCode::bad_data);
  report.faults.emplace_back().rank = 3;
  findings = findings_of(report, {});
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].at.kind == SubjectKind::rank);
  CHECK(findings[0].at.rank == 3);
}

TEST_CASE("an efficiency is that of the row's expected time", "[judge]") {
  BenchReport report = measured(5, 3.5);
  report.rows[1].expected = {4, 4.4, "eth0 of node03, 10 Gb/s", "bound"};
  Limits limits;
  limits.min_efficiency = limit(0.8);
  CHECK(judge(report, limits, {}).ok());
  limits.min_efficiency = limit(0.85);
  const Verdict slow = judge(report, limits, {});
  CHECK(slow.exit_code() == 1);
  REQUIRE(slow.reasons().size() == 1);
  CHECK(slow.reasons()[0].code == "below-min-efficiency");
  CHECK(
      slow.reasons()[0].message ==
      "allreduce 1 GiB float32 sum ring/simple out of place: 80 % of the expected 4.000 us (bound "
      "of the paths, limited by eth0 of node03, 10 Gb/s), below the minimum of 85 %");
  // Nothing is expected of 8 bytes: that is no pass.
  limits.min_efficiency = limit(0.1, 8);
  CHECK(judge(report, limits, {}).exit_code() == 8);
  // Nor is an assumption a standard: it says what is not known.
  report.rows[1].expected = {4, 4.4, "eth0", "assumed", "the speed of eth0 of node03"};
  limits.min_efficiency = limit(0.1);
  CHECK(judge(report, limits, {}).exit_code() == 8);
  CHECK(
      findings_of(report, limits)[0].message ==
      "--min-efficiency: no timing at 1 GiB to compare: nothing is expected, as the speed of eth0 "
      "of node03 is not known; limits of busbw or time need no model");
  limits = {};
  limits.min_busbw = limit(1, 16);
  CHECK(findings_of(report, limits)[0].message == "--min-busbw: no timing at 16 B to compare");
}

TEST_CASE("who was busy meanwhile stands with what was too slow, and with nothing else",
          "[judge]") {
  BenchReport report = measured(5, 3.5);
  report.closing.emplace().busy = {{{HostId{1}, "node02"}, "other processes took 1.9 of 2 cores"}};
  Limits limits;
  limits.min_busbw = limit(4);
  const Verdict slow = judge(report, limits, {});
  REQUIRE(slow.reasons().size() == 1);
  CHECK(slow.reasons()[0].message.ends_with(
      "host node02 was busy meanwhile (other processes took 1.9 of 2 cores), so this says little"));
  limits.min_busbw = limit(3);
  CHECK(judge(report, limits, {}).ok());
}

}  // namespace judge_bench_limits_tests
