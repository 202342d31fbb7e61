// --window: the measurement's buffers in registered windows. Ranks as threads: results are right
// whichever way they take, rows and header name which it was, and all is given back, also after
// errors.
#include <set>

#include "base/env.h"
#include "cmd/verify/row.h"
#include "runtime/window/memory.h"
#include "tests/how_much.h"
#include "tests/unit/cmd/measure/bench_ranks.h"

namespace measure_windows_tests {

using namespace collctl;
using namespace collctl::cmd;
using namespace collctl::cmd::testing;
using kernels::Collective;
using kernels::DataType;
using kernels::RedOp;

namespace {

BenchSpec window_bench(Collective collective) {
  BenchSpec spec = small_bench(collective);
  spec.window = true;
  return spec;
}

bool nothing_allocated() {
  const auto usage = runtime::window_memory_usage();
  CHECK(usage.segments == 0);
  return usage.segments == 0;
}

// Collectives that go from buffer to buffer when it is asked for: those that move something, but
// neither messages nor barriers.
bool goes_direct(Collective collective) {
  return collective != Collective::send_recv && collective != Collective::barrier;
}

}  // namespace

TEST_CASE("bench in windows: every collective direct, odd sizes, off a page", "[bench_window]") {
  for (int n : test::nightly() ? std::vector{1, 2, 3, 4, 7} : std::vector{1, 3})
    for (int c = 0; c < kernels::kCollectiveCount; ++c) {
      const auto collective = Collective(c);
      BenchSpec spec = window_bench(collective);
      spec.types = {DataType::int8, DataType::float64};
      spec.ops = {RedOp::avg};
      spec.roots = {n - 1};
      // Over windows whatever the model prefers; a barrier and messages have other ways.
      if (goes_direct(collective))
        spec.algorithms = {collective == Collective::all_reduce ? "two-shot" : "one-shot"};
      spec.misalign = c % 2 == 0 ? 8 : 24;
      const BenchOutcome outcome = run_bench(spec, n);
      INFO(kernels::name_of(collective) << " on " << n << ": " << outcome.first_error());
      REQUIRE(outcome.errors.empty());
      CHECK(wrong_timings(outcome) == (collective == Collective::barrier ? 1 : 0));
      REQUIRE_FALSE(outcome.sink.rows.empty());
      for (const BenchRow& row : outcome.sink.rows) {
        INFO(row.bytes << " bytes, " << row.count << " elements, " << row.algorithm);
        CHECK(row.direct == (goes_direct(collective) && n > 1 && row.count > 0));
      }
      const auto& windows = outcome.sink.headers.at(0).windows;
      REQUIRE(windows);
      REQUIRE(windows->teams.size() == 1);
      CHECK(windows->teams[0].size() == size_t(n));
      CHECK(windows->note == (n == 1 ? "one rank has no peers" : ""));
      CHECK(nothing_allocated());
    }
}

TEST_CASE("bench in windows: one byte, each iteration apart", "[bench_window]") {
  BenchSpec spec = window_bench(Collective::all_reduce);
  spec.types = {DataType::uint8};
  spec.min_bytes = spec.max_bytes = 1;
  spec.misalign = 1;
  spec.sync_each = true;
  spec.algorithms = {"two-shot"};
  const BenchOutcome outcome = run_bench(spec, 3);
  INFO(outcome.first_error());
  REQUIRE(outcome.errors.empty());
  REQUIRE(outcome.sink.rows.size() == 1);
  CHECK(outcome.sink.rows[0].count == 1);
  CHECK(outcome.sink.rows[0].direct);
  CHECK(wrong_timings(outcome) == 0);
}

TEST_CASE("bench in windows: the model takes them where they are faster, choices are obeyed",
          "[bench_window]") {
  BenchSpec spec = window_bench(Collective::all_reduce);
  // Without the copy into a bank and out of it half of the moves are left.
  spec.min_bytes = spec.max_bytes = 4 << 20;
  const BenchOutcome chosen = run_bench(spec, 2);
  REQUIRE(chosen.errors.empty());
  REQUIRE(chosen.sink.rows.size() == 1);
  CHECK(chosen.sink.rows[0].direct);
  CHECK(wrong_timings(chosen) == 0);
  // Input and output, in whole pages, with three pages of guards and room to misalign each.
  CHECK(chosen.sink.headers.at(0).windows->bytes == 2 * ((4 << 20) + 3 * 4096));

  spec.algorithms = {"ring", "two-shot"};
  spec.min_bytes = spec.max_bytes = 4096;
  const BenchOutcome asked = run_bench(spec, 2);
  REQUIRE(asked.errors.empty());
  REQUIRE(asked.sink.rows.size() == 2);
  CHECK(asked.sink.rows[0].algorithm == "ring");
  CHECK_FALSE(asked.sink.rows[0].direct);
  CHECK(asked.sink.rows[1].algorithm == "two-shot");
  CHECK(asked.sink.rows[1].direct);
  CHECK(wrong_timings(asked) == 0);

  spec.window = false;
  const BenchOutcome without = run_bench(spec, 2);
  REQUIRE(without.errors.empty());
  CHECK_FALSE(without.sink.rows.at(1).direct);
  CHECK_FALSE(without.sink.headers.at(0).windows);
}

TEST_CASE("bench in windows: ranks that do not map each other take the staged path",
          "[bench_window]") {
  const base::ScopedVariable no_shm("COLLCTL_SHM_DISABLE", "1"), no_p2p("COLLCTL_P2P_DISABLE", "1");
  for (const Collective collective : {Collective::all_reduce, Collective::all_to_all}) {
    BenchSpec spec = window_bench(collective);
    spec.misalign = 4;
    const BenchOutcome outcome = run_bench(spec, 3);
    INFO(outcome.first_error());
    REQUIRE(outcome.errors.empty());
    CHECK(wrong_timings(outcome) == 0);
    for (const BenchRow& row : outcome.sink.rows) CHECK_FALSE(row.direct);
    const auto& windows = outcome.sink.headers.at(0).windows;
    REQUIRE(windows);
    CHECK(windows->teams == std::vector<std::vector<int>>{{0}, {1}, {2}});
    CHECK(windows->note == "not all ranks map each other's memory");
  }
  CHECK(nothing_allocated());
}

TEST_CASE("bench in windows: addresses that run short are an error on all ranks",
          "[bench_window]") {
  const base::ScopedVariable stride("COLLCTL_WINDOW_STRIDE", "2097152");
  BenchSpec spec = window_bench(Collective::all_gather);
  spec.min_bytes = spec.max_bytes = 3 << 20;
  const BenchOutcome outcome = run_bench(spec, 3);
  REQUIRE(outcome.errors.size() == 3);
  std::set<std::string> ranks;
  for (const Error& error : outcome.errors) {
    INFO(error.chain());
    CHECK(error.code == ErrorCode::unavailable);
    CHECK(error.chain().find("no room for ") != std::string::npos);
    CHECK(error.hint.find("COLLCTL_WINDOW_STRIDE") != std::string::npos);
    ranks.insert(error.chain().substr(0, 6));
  }
  CHECK(ranks == std::set<std::string>{"rank 0", "rank 1", "rank 2"});
  CHECK(outcome.sink.rows.empty());
  CHECK(nothing_allocated());
}

TEST_CASE("bench in windows: wrong data is found and told, and windows are given back",
          "[bench_window]") {
  const base::ScopedVariable fault("COLLCTL_FAULT", "corrupt:rank=1:step=0");
  BenchSpec spec = window_bench(Collective::all_reduce);
  spec.types = {DataType::int32};
  spec.min_bytes = spec.max_bytes = 64 << 10;
  spec.algorithms = {"two-shot"};
  spec.in_place = InPlace::out_of_place;
  const BenchOutcome outcome = run_bench(spec, 3);
  INFO(outcome.first_error());
  REQUIRE(outcome.errors.empty());
  REQUIRE(outcome.sink.rows.size() == 1);
  CHECK(outcome.sink.rows[0].direct);
  CHECK(outcome.sink.rows[0].out_of_place.wrong > 0);
  REQUIRE_FALSE(outcome.sink.faults.empty());
  for (const DataFault& found : outcome.sink.faults) {
    INFO(found.message);
    CHECK(found.kind == "corrupted");
    CHECK(found.message.find("directly between the ranks' windows") != std::string::npos);
  }
  CHECK(nothing_allocated());
}

TEST_CASE("soak in windows and beside them", "[bench_window]") {
  for (const int n : {1, 2, 3, 7}) {
    BenchSpec spec;
    spec.window = true;
    spec.soak = true;
    spec.soak_seed = 100 + uint64_t(n);
    spec.soak_operations = test::nightly() ? 120 : 40;
    spec.max_bytes = 64 << 10;
    const BenchOutcome outcome = run_bench(spec, n);
    INFO(n << " ranks: " << outcome.first_error());
    CHECK(outcome.errors.empty());
    // Three of four pairs of buffers lie in windows.
    const auto& windows = outcome.sink.headers.at(0).windows;
    REQUIRE(windows);
    // Room for patterns whose ranks get more than they send.
    CHECK(windows->bytes == 3 * (2 * 2 * spec.max_bytes + 6 * 4096));
    CHECK(nothing_allocated());
  }
}

TEST_CASE("a buffer for windows has its guards, grows and is given back", "[bench_window]") {
  {
    GuardedBuffer buffer(nullptr, true);
    REQUIRE(buffer.reserve(5000));
    CHECK(runtime::window_memory_usage().segments == 1);
    buffer.misalign(3);
    REQUIRE(buffer.poison(5000));
    REQUIRE(buffer.damaged(5000));
    CHECK(*buffer.damaged(5000) == 0);
    buffer.data()[5000] ^= 1;
    buffer.data()[-1] ^= 1;
    CHECK(*buffer.damaged(5000) == 2);
    REQUIRE(buffer.reserve(100'000));
    CHECK(runtime::window_memory_usage().segments == 1);
    GuardedBuffer other(nullptr, true);
    other = std::move(buffer);
    CHECK(other.capacity() >= 100'000);
    const Status more = other.reserve(uint64_t(1) << 60);
    REQUIRE_FALSE(more);
    CHECK(more.error().code == ErrorCode::unavailable);
    CHECK(more.error().chain().find("for a window") != std::string::npos);
  }
  CHECK(nothing_allocated());
}

}  // namespace measure_windows_tests
