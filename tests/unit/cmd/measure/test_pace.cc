// The knobs that tests of whole jobs live on: PACE_US and UNTIL, a job that idles and ends when it
// is told to.
#include <atomic>
#include <fstream>

#include "base/clock.h"
#include "base/env.h"
#include "base/wait.h"
#include "tests/unit/cmd/measure/bench_ranks.h"

namespace measure_pace_tests {

using namespace collctl;
using namespace collctl::cmd;
using namespace collctl::cmd::testing;
using kernels::Collective;

namespace {

// Tells, once the first row is begun and a while later, and looks whether rows came before that.
struct TellingSink : KeepingSink {
  std::atomic<bool> begun = false;
  std::atomic<bool>* told = nullptr;  // rank 0's
  bool row_untold = false;
  void progress(const std::string&) override { begun = true; }
  void on(BenchRecord record) override {
    row_untold |= std::holds_alternative<BenchRow>(record) && told != nullptr && !*told;
    KeepingSink::on(std::move(record));
  }
};

}  // namespace

TEST_CASE("pace: a rank sleeps before each operation", "[bench]") {
  const base::ScopedVariable pace("COLLCTL_PACE_US", "3000");
  BenchSpec spec = small_bench(Collective::all_reduce);
  spec.min_bytes = spec.max_bytes = 8;
  spec.iterations = 4;
  spec.sync_each = true;
  const BenchOutcome outcome = run_bench(spec, 2);
  INFO(outcome.first_error());
  REQUIRE(outcome.errors.empty());
  REQUIRE(outcome.sink.rows.size() == 1);
  CHECK(outcome.sink.rows[0].out_of_place.min_us >= 3000);
  CHECK(wrong_timings(outcome) == 0);
}

TEST_CASE("until: rows are measured until a rank finds the file, then each once", "[bench]") {
  const std::string path = "/tmp/collctl-until-" + std::to_string(::getpid());
  const base::ScopedVariable until("COLLCTL_UNTIL", path);
  for (const bool split : {false, true}) {
    BenchSpec spec = small_bench(Collective::all_reduce);
    spec.min_bytes = 8, spec.max_bytes = 32, spec.step_bytes = 0;
    spec.iterations = 2;
    if (split) spec.split = *parse_split("2");
    std::vector<TellingSink> sinks(4);
    std::atomic<bool> told = false;
    sinks[0].told = &told;
    std::thread teller([&] {
      while (!sinks[0].begun) base::sleep_until(Deadline::after_ms(1));
      // time is what is tested: a job that did not wait to be told would be over by then
      base::sleep_until(Deadline::after_ms(100));
      told = true;
      std::ofstream(path).flush();
    });
    const auto errors = run_bench_ranks(spec, sinks, false);
    teller.join();
    ::unlink(path.c_str());
    INFO((errors.empty() ? "" : errors[0].chain()));
    CHECK(errors.empty());
    CHECK_FALSE(sinks[0].row_untold);
    CHECK(sinks[0].rows.size() == (split ? 6 : 3));
  }
}

}  // namespace measure_pace_tests
