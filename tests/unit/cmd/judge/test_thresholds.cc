// Thresholds of a file: what a line says, what is wrong with one, what it is held against.
#include "base/format.h"
#include "tests/unit/cmd/report/report_rows.h"

namespace judge_thresholds_tests {

using namespace collctl;
using namespace collctl::cmd;
using namespace collctl::cmd::testing;

namespace {

std::string mistake(const std::string& text) {
  const auto read = parse_thresholds("t", text);
  REQUIRE_FALSE(read.ok());
  CHECK(read.error().code == ErrorCode::usage);
  return read.error().message;
}

Verdict judged(const BenchReport& report, const std::string& text) {
  auto read = parse_thresholds("t", text);
  REQUIRE(read.ok());
  Limits limits;
  limits.thresholds = std::make_shared<const Thresholds>(std::move(*read));
  return judge(report, limits, {});
}

}  // namespace

TEST_CASE("a line of thresholds has all its columns, and its source in words", "[judge]") {
  const auto read =
      parse_thresholds("t",
                       "# what the vendor says\n"
                       "\n"
                       "allreduce 1G  busbw 8 min 380   their figures, 2026 # ours\r\n"
                       "\tbarrier 0 time * max 40.5 us\n");
  REQUIRE(read.ok());
  REQUIRE(read->rows.size() == 2);
  const Threshold& first = read->rows[0];
  CHECK(first.collective == kernels::Collective::all_reduce);
  CHECK(first.bytes == 1u << 30);
  CHECK(first.statistic == Statistic::busbw);
  CHECK(first.ranks == 8);
  CHECK(first.minimum);
  CHECK(first.value == 380);
  CHECK(first.source == "their figures, 2026");
  CHECK(first.line == 3);
  CHECK(read->rows[1].ranks == 0);
  CHECK_FALSE(read->rows[1].minimum);
  CHECK(read->rows[1].value == 40.5);
}

TEST_CASE("a mistake in thresholds is told with its line and column", "[judge]") {
  CHECK(mistake("") == "t: holds no threshold");
  CHECK(mistake("# nothing\n") == "t: holds no threshold");
  CHECK(mistake("\nallreduced 8 time * max 4 me\n") ==
        "t:2:1: expected a collective, not 'allreduced'");
  CHECK(mistake("allreduce eight time * max 4 me") ==
        "t:1:11: expected a size (8, 4M, 1G), not 'eight'");
  CHECK(mistake("allreduce 8 speed * max 4 me") ==
        "t:1:13: expected busbw, algbw, time, p50, p99 or efficiency, not 'speed'");
  for (const char* ranks : {"0", "-1", "1.5", "x", "99999999"})
    CHECK(mistake(format("allreduce 8 time {} max 4 me", ranks)) ==
          format("t:1:18: expected a number of ranks, or *, not '{}'", ranks));
  CHECK(mistake("allreduce 8 time * most 4 me") == "t:1:20: expected min or max, not 'most'");
  for (const char* value : {"nan", "inf", "-3", "1e99", "4us"})
    CHECK(mistake(format("allreduce 8 time * max {} me", value)) ==
          format("t:1:24: expected a value, not '{}'", value));
  CHECK(mistake("allreduce 8 time * max 4") ==
        "t:1:25: expected who says so: the source, in words");
  CHECK(mistake("allreduce 8 time") == "t:1:17: expected a number of ranks, or *");
  CHECK(mistake("allreduce 8 time * max 4 a\x1b[2Jb") ==
        "t:1:27: a control character; expected text");
  CHECK(mistake("allreduce 8 time * max 4 " + std::string(2000, 'x')).find("longer than 1000") !=
        std::string::npos);
  std::string many;
  for (size_t i = 0; i <= kMostThresholds; ++i) many += "barrier 0 time * max 4 me\n";
  CHECK(mistake(many) == "t:10001: more than 10000 thresholds");
}

TEST_CASE("a threshold is held against the timings of its collective, size and ranks", "[judge]") {
  BenchReport report = report_of({row(8, 5, 0.01), row(1u << 30, 1000, 4)});
  report.rows[1].expected = {900, 4.4, "copies", "model"};
  CHECK(judged(report, "allreduce 1G busbw 4 min 3.6 x").ok());  // in place has 3.6
  const Verdict slow = judged(report, "allreduce 1G busbw * min 3.7 our contract");
  CHECK(slow.exit_code() == 1);
  REQUIRE(slow.reasons().size() == 1);
  CHECK(slow.reasons()[0].code == "beyond-threshold");
  CHECK(slow.reasons()[0].message ==
        "allreduce 1 GiB float32 sum ring/simple in place: busbw 3.600 GB/s, below the minimum of "
        "3.700 (our contract, t:1)");
  CHECK(judged(report, "allreduce 8 time 4 max 5.2 x").exit_code() == 1);  // in place 5.5
  CHECK(judged(report, "allreduce 8 time 4 max 5.5 x").ok());
  CHECK(judged(report, "allreduce 1G efficiency 4 min 0.81 x").ok());  // in place 0.818
  CHECK(judged(report, "allreduce 1G efficiency 4 min 0.95 x").reasons().size() == 2);
  report.rows[1].expected = {900, 4.4, "copies", "assumed", "the speed of eth0 of a"};
  const Verdict unknown = judged(report, "allreduce 1G efficiency 4 min 0.1 x");
  CHECK(unknown.exit_code() == 8);
  REQUIRE(unknown.reasons().size() == 1);
  CHECK(unknown.reasons()[0].message ==
        "t:1: efficiency of allreduce at 1 GiB was not measured: nothing is expected, as the speed "
        "of eth0 of a is not known; limits of busbw or time need no model");
}

TEST_CASE("what a threshold asks for and was not measured is no pass", "[judge]") {
  const BenchReport report = report_of({row(8, 5, 0.01)});
  CHECK(judged(report, "allreduce 1K time 4 max 9 x").exit_code() == 8);
  CHECK(judged(report, "allreduce 8 p99 4 max 9 x").exit_code() == 8);  // without --sync each
  CHECK(judged(report, "allreduce 8 efficiency 4 min 0.1 x").exit_code() == 8);
  // Those of others alone: nothing was held against anything.
  CHECK(judged(report, "broadcast 8 time 4 max 9 x").exit_code() == 8);
  CHECK(judged(report, "allreduce 8 time 5 max 9 x").exit_code() == 8);
  // Beside one of its own they do not count.
  CHECK(judged(report, "broadcast 8 time 4 max 9 x\nallreduce 8 time 4 max 9 x").ok());
}

}  // namespace judge_thresholds_tests
