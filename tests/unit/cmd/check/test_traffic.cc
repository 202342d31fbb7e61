// Times of uneven exchanges beside an even one.
#include "base/format.h"
#include "cmd/check/cluster.h"
#include "cmd/verify/uneven.h"
#include "tests/catch.h"

namespace traffic_tests {

using namespace collctl;
using namespace collctl::cmd;

namespace {

BenchReport report_of(const BenchOp& op, int ranks, std::vector<std::pair<uint64_t, double>> rows) {
  BenchReport report;
  report.spec.collective = op;
  report.header.emplace();
  report.header->ranks = ranks;
  for (const auto& [bytes, us] : rows) {
    BenchRow& row = report.rows.emplace_back();
    row.bytes = bytes;
    row.out_of_place.measured = true;
    row.out_of_place.time_us = us;
  }
  return report;
}

}  // namespace

TEST_CASE("traffic: a time for each number of tokens, beside an even exchange", "[check]") {
  // 7 KiB of three ranks are 7164 bytes.
  const auto even = report_of(kernels::Collective::all_to_all, 3, {{7164, 50}, {28 << 20, 9000}});
  auto report = report_of(kHotExpert, 3, {{7164, 90}, {28 << 20, 60000}});
  const auto found = exchange_times(report, &even, true);
  REQUIRE(found.size() == 2);
  CHECK(found[0].name == "traffic/hot-expert of 1 token");
  CHECK(found[0].measured == "90.00");
  CHECK(found[0].unit == "us");
  CHECK(found[0].status == FindingStatus::pass);
  // Rank 0 takes two blocks of each of two others, of an even exchange one of each.
  CHECK(found[0].expected == "200.0");
  CHECK(found[1].name == "traffic/hot-expert of 4096 tokens");
  CHECK(found[1].status == FindingStatus::warn);
  CHECK(found[1].code == ErrorCode{});  // told, and no fault
  CHECK(found[1].message ==
        "hot-expert of 4096 tokens takes 60000 us, an even exchange of such blocks 9000 us");
  CHECK(found[1].remedy != "");
  // Busy hosts' times say nothing.
  report.closing.emplace();
  report.closing->busy.push_back({{}, "others took 2 cores"});
  for (const Finding& time : exchange_times(report, &even, true)) {
    CHECK(time.status == FindingStatus::pass);
    CHECK(time.reason == kBusyHost);
  }
}

TEST_CASE("traffic: without an even exchange the times stand alone", "[check]") {
  const auto report = report_of(kDispatch, 4, {{8192, 90}, {16384, 0}});
  const auto found = exchange_times(report, nullptr, false);
  REQUIRE(found.size() == 1);  // a row without a time has none
  CHECK(found[0].name == "traffic/moe-dispatch of 8 KiB");
  CHECK(found[0].expected == "");
  const auto even = report_of(kernels::Collective::all_to_all, 4, {{4096, 10}});
  CHECK(exchange_times(report, &even, false)[0].expected == "");  // of another size
}

}  // namespace traffic_tests
