// Traces of ranks put together (cmd/measure/observer.h): clocks, order, what is left out.
#include "cmd/measure/observer.h"
#include "tests/catch.h"

namespace measure_trace_tests {

using namespace collctl;
using namespace collctl::cmd;

namespace {

RankTrace rank_trace(int64_t start, int64_t step) {
  RankTrace trace;
  for (uint32_t i = 0; i < 3; ++i) {
    TracedOperation each;
    each.iteration = i;
    each.start_ns = start + int64_t(i) * step;
    each.end_ns = each.start_ns + step / 2;
    each.waits.push_back({.peer = 1, .recv_ns = 2000, .send_ns = 500});
    trace.operations.push_back(each);
  }
  return trace;
}

}  // namespace

TEST_CASE("ranks of a host have one clock, hosts one barrier", "[cmd]") {
  const uint64_t hosts[] = {7, 7, 9, 9};
  // The second host's clock is 1 s ahead; its second rank was late by 40.
  const int64_t starts[] = {100, 120, 1'000'000'110, 1'000'000'150};
  const auto ahead = clocks_ahead(starts, hosts);
  CHECK(ahead[0] == 0);
  CHECK(ahead[1] == 0);
  CHECK(ahead[2] == 1'000'000'030);
  CHECK(ahead[3] == ahead[2]);  // what lies between ranks of a host stays
}

TEST_CASE("a row's trace is by rank 0's clock", "[cmd]") {
  const uint64_t hosts[] = {7, 9};
  const RankTrace ranks[] = {rank_trace(5'000'000, 10'000), rank_trace(95'000'000, 10'000)};
  const BenchTrace merged = merged_trace(ranks, hosts, 4'000'000);
  REQUIRE(merged.events.size() == 6);
  CHECK(merged.events[0].start_us == 1000);
  CHECK(merged.events[3].rank == 1);
  CHECK(merged.events[3].start_us == 1000);
  CHECK(merged.events[5].start_us == 1020);
  CHECK(merged.events[5].elapsed_us == 5);
  CHECK(merged.events[5].waits.at(0).recv_us == 2);
  CHECK(merged.left_out == 0);
}

TEST_CASE("a rank's trace travels whole, and no bytes of a stranger are taken for one", "[cmd]") {
  RankTrace trace = rank_trace(1, 2);
  trace.left_out = 4711;
  const Bytes whole = encoded(trace);
  const auto back = decoded<RankTrace>(whole);
  REQUIRE(back.ok());
  CHECK(back->left_out == 4711);
  REQUIRE(back->operations.size() == 3);
  CHECK(back->operations[2].waits.at(0).send_ns == 500);
  for (size_t n = 0; n < whole.size(); ++n) CHECK_FALSE(decoded<RankTrace>({whole.data(), n}).ok());
}

TEST_CASE("a trace travels as a record", "[cmd]") {
  struct Keeps : BenchSink {
    void on(BenchRecord record) override { kept = std::get<BenchTrace>(record); }
    void progress(const std::string&) override {}
    void phase(int, const std::string&) override {}
    BenchTrace kept;
  } sink;
  const uint64_t hosts[] = {7, 7};
  const RankTrace ranks[] = {rank_trace(5'000, 10), rank_trace(5'003, 10)};
  REQUIRE(sink.record(encode_record(merged_trace(ranks, hosts, 5'000))).ok());
  REQUIRE(sink.kept.events.size() == 6);
  CHECK(sink.kept.events[3].start_us == 0.003);
  CHECK_FALSE(sink.record(R"({"record":"trace","events":[{"rank":-1}],"left_out":0})").ok());
}

}  // namespace measure_trace_tests
