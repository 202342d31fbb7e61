// The planner's preferences: by the model, and where ranks share memory.
#include "tests/unit/runtime/plan/plan_shapes.h"

namespace plan_planner_choice_tests {

using namespace collctl;
using namespace collctl::runtime;
using kernels::AlgorithmId;
using kernels::PairStep;
using kernels::Protocol;
using namespace collctl::runtime::testing;

TEST_CASE("the model prefers what it should", "[planner]") {
  const CommShape shape = shape_of(0, 8);
  const Operation tiny = operation(Collective::all_reduce, 2);
  auto plan = make_plan({&tiny, 1}, shape, {});
  REQUIRE(plan);
  CHECK(plan->ops[0].protocol == Protocol::ll);
  CHECK(plan->ops[0].algorithm != AlgorithmId::ring);
  const Operation big = operation(Collective::all_reduce, 8 << 20);
  auto large = make_plan({&big, 1}, shape, {});
  REQUIRE(large);
  CHECK(large->ops[0].protocol == Protocol::simple);
  CHECK(large->ops[0].algorithm == AlgorithmId::ring);
  // More bytes never cost less.
  for (Protocol p : {Protocol::simple, Protocol::ll}) {
    double last = 0;
    for (uint64_t bytes = 8; bytes < (1u << 28); bytes *= 2) {
      const double us = predict_us({.collective = Collective::all_reduce,
                                    .algorithm = AlgorithmId::ring,
                                    .protocol = p,
                                    .bytes = bytes,
                                    .chunk_bytes = 65536},
                                   shape);
      CHECK(us >= last);
      last = us;
    }
  }
}

TEST_CASE("windows: pieces fit a bank, channels have one each", "[planner]") {
  for (int n : {1, 2, 3, 7, 64})
    for (const char* algorithm : {"one-shot", "two-shot"})
      for (int c = 0; c < kernels::kCollectiveCount; ++c) {
        if (!serves(*kernels::find_algorithm(algorithm), Collective(c))) continue;
        CommShape shape = with_windows(shape_of(n - 1, n, 4));
        shape.window_bytes = 4096;
        shape.window_channels = 2;
        const Operation op = operation(Collective(c), 40'000);
        auto plan = make_plan({&op, 1}, shape, choices(algorithm, "", 4));
        REQUIRE(plan);
        CHECK(plan->ops[0].channels == 2);
        for (const auto& w : plan->ops[0].works) {
          const bool by_rank =
              w.algorithm == AlgorithmId::two_shot || w.collective == Collective::reduce_scatter ||
              w.collective == Collective::scatter || w.collective == Collective::all_to_all;
          CHECK(w.chunk_count > 0);
          CHECK(w.chunk_count * 4 % 16 == 0);
          CHECK(w.chunk_count * 4 * uint64_t(by_rank ? n : 1) <= 4096);
        }
        // Another type's cuts (diagnosis) are taken as far as they fit.
        Operation wide = operation(Collective(c), 4000);
        wide.type = DataType::int64;
        wide.chunk_elements = plan->ops[0].works[0].chunk_count;
        auto again = make_plan({&wide, 1}, shape, choices(algorithm, "", 1));
        REQUIRE(again);
        CHECK(again->ops[0].works[0].chunk_count <= plan->ops[0].works[0].chunk_count);
      }
}

TEST_CASE("windows: small messages by one-shot, large ones by two-shot", "[planner]") {
  for (int n : {2, 4, 8})
    for (double crowd : {1.0, double(n) / 2}) {
      CommShape shape = with_windows(shape_of(0, n));
      shape.ranks_per_core = crowd;
      const auto chosen = [&](Collective c, uint64_t count) {
        const Operation op = operation(c, count);
        auto choice = choose_collective(op, shape, {});
        REQUIRE(choice);
        return choice->algorithm;
      };
      CAPTURE(n, crowd);
      CHECK(chosen(Collective::all_reduce, 2) == AlgorithmId::one_shot);
      CHECK(chosen(Collective::barrier, 1) == AlgorithmId::one_shot);
      CHECK(chosen(Collective::broadcast, 16) == AlgorithmId::one_shot);
      CHECK(chosen(Collective::all_to_all, 16) == AlgorithmId::one_shot);
      CHECK(chosen(Collective::all_reduce, 1 << 20) != AlgorithmId::one_shot);
    }
}

// Measured with 4 ranks on 2 cores: one-shot wins up to 64 KiB, two-shot from there to 2 MiB and
// more, as it does with a core for each rank.
TEST_CASE("ranks that share cores use shared memory with large sums, too", "[planner]") {
  CommShape shape = with_windows(shape_of(0, 4));
  shape.all_on_one_host = true;
  const auto chosen = [&](uint64_t bytes) {
    const Operation op = operation(Collective::all_reduce, bytes / 4);
    auto choice = choose_collective(op, shape, {});
    REQUIRE(choice);
    return choice->algorithm;
  };
  for (const uint64_t kib : {512, 2048, 16384, 65536}) {
    CAPTURE(kib);
    shape.ranks_per_core = 1;
    CHECK(chosen(kib << 10) == AlgorithmId::two_shot);
    shape.ranks_per_core = 2;
    if (kib <= 2048) CHECK(chosen(kib << 10) == AlgorithmId::two_shot);
  }
  for (const uint64_t bytes : {64, 4 << 10, 64 << 10}) {
    CAPTURE(bytes);
    CHECK(chosen(bytes) == AlgorithmId::one_shot);
  }
}

}  // namespace plan_planner_choice_tests
