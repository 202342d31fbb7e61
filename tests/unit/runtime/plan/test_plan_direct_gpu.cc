// Plans of GPU ranks whose buffers lie in windows (runtime/plan/shared.h): what goes directly
// between them by the model's times and by the caller's choices.
#include "kernels/shared_block.h"
#include "runtime/plan/gpu_cost.h"
#include "runtime/plan/shared.h"
#include "tests/unit/runtime/gpu_job.h"

namespace plan_plan_direct_gpu_tests {

using namespace collctl;
using namespace collctl::runtime;
using kernels::AlgorithmId;
using kernels::Protocol;

namespace {

// As the kernels: LL up to 128 KiB, LL128 up to 16 MiB, stores at any size.
bool windows_serve(Collective c, AlgorithmId algorithm, Protocol protocol, DataType, RedOp,
                   int nranks, uint64_t bytes) {
  const bool two_shot = algorithm == AlgorithmId::two_shot && c == Collective::all_reduce;
  return nranks > 1 && (two_shot || algorithm == AlgorithmId::one_shot) &&
         (protocol == Protocol::simple ||
          bytes <= (protocol == Protocol::ll ? 128u << 10 : 16u << 20));
}
bool all_direct(Collective, DataType, RedOp, int, uint64_t) {
  return true;
}

CommShape shape_of(int ranks) {
  CommShape shape = gpu_job(ranks).shapes()[0];
  shape.gpu_window = true;
  shape.no_window = {};
  shape.window_serves = windows_serve;
  shape.window_direct = all_direct;
  shape.ll128_passed = true;
  return shape;
}

PlannedOp planned(const CommShape& shape, Collective collective, uint64_t count,
                  const std::string& algo = "", const std::string& proto = "") {
  auto choices = parse_choices(algo, proto, 0);
  REQUIRE(choices);
  Operation op;
  op.collective = collective;
  op.input = reinterpret_cast<const void*>(uintptr_t{1} << 40);  // nobody follows them
  op.output = reinterpret_cast<void*>(uintptr_t{2} << 40);
  op.count = count;
  auto plan = make_shared_plan({&op, 1}, shape, *choices);
  INFO((plan ? "" : plan.error().chain()));
  REQUIRE(plan);
  CHECK(plan->pairs.empty());
  return plan->ops.at(0);
}

}  // namespace

TEST_CASE("GPU ranks move data directly between windows where the model says so",
          "[gpu][planner][user_window]") {
  constexpr uint64_t kLarge = 64 << 20;  // elements
  for (const int n : {2, 4, 8}) {
    const CommShape shape = shape_of(n);
    INFO(n << " ranks");
    for (const Collective c : {Collective::all_gather, Collective::all_to_all}) {
      INFO(kernels::name_of(c));
      CHECK_FALSE(planned(shape, c, 4).direct);  // lines are there sooner
      const PlannedOp large = planned(shape, c, kLarge);
      CHECK(large.direct);
      // One kernel for the whole operation, which knows what its addresses are.
      CHECK(large.by_window_kernel);
      REQUIRE(large.works.size() == 1);
      CHECK(large.works[0].part_offset == 0);
      CHECK(large.works[0].part_count == kLarge);
      CHECK(kernels::shares_buffers(large.works[0]));
      CHECK(large.algorithm == AlgorithmId::one_shot);
      CHECK(large.expected_us < planned(shape, c, 2 * kLarge).expected_us);
    }
    // Sums come as soon through slots, whatever the size.
    for (const Collective c : {Collective::all_reduce, Collective::reduce_scatter})
      for (const uint64_t count : {uint64_t(4), uint64_t(4) << 20, kLarge})
        CHECK_FALSE(planned(shape, c, count).direct);
    // A broadcast to several is handed on through slots, sooner than by loads.
    CHECK(planned(shape, Collective::broadcast, kLarge).direct == (n == 2));
  }
}

TEST_CASE("choices of GPU ranks with buffers in windows", "[gpu][planner][user_window]") {
  constexpr uint64_t kLarge = 64 << 20;
  constexpr auto kSum = Collective::all_reduce;
  CommShape shape = shape_of(4);
  CHECK(planned(shape, kSum, 4, "two-shot").direct);  // asked for, whatever it takes
  CHECK_FALSE(planned(shape, kSum, kLarge, "ring").direct);
  CHECK_FALSE(planned(shape, kSum, 1024, "", "ll").direct);
  CHECK(planned(shape, Collective::all_to_all, kLarge, "", "simple").direct);
  CHECK_FALSE(planned(shape, Collective::barrier, 1).direct);
  constexpr auto kMoved = Collective::all_gather;
  shape.window_direct = nullptr;
  CHECK_FALSE(planned(shape, kMoved, kLarge).direct);
  shape.window_direct = [](Collective c, DataType, RedOp, int, uint64_t) {
    return c == Collective::all_to_all;
  };
  CHECK_FALSE(planned(shape, kMoved, kLarge).direct);
  CHECK(planned(shape, Collective::all_to_all, kLarge).direct);
  shape.window_direct = all_direct;
  shape.gpu_window = false;
  shape.no_window = "of no account";
  CHECK_FALSE(planned(shape, kMoved, kLarge).direct);
}

TEST_CASE("times directly between windows", "[gpu][model][user_window]") {
  const auto us = [](Collective c, int n, uint64_t bytes) {
    return predict_direct({c, AlgorithmId::two_shot, Protocol::simple, n, bytes}).us;
  };
  constexpr uint64_t kMiB = 1 << 20;
  for (const int n : {2, 4}) {
    // A put needs no slot: sooner than through one.
    const GpuQuery staged{Collective::all_gather, AlgorithmId::one_shot, Protocol::simple, n,
                          16 * kMiB};
    CHECK(us(Collective::all_gather, n, 16 * kMiB) < predict_window_kernel(staged).us);
    for (const Collective c :
         {Collective::all_reduce, Collective::reduce_scatter, Collective::all_gather}) {
      CHECK(us(c, n, 8) < us(c, n, kMiB));
      CHECK(us(c, n, kMiB) < us(c, n + 1, kMiB));
    }
  }
  CHECK(predict_direct({Collective::broadcast, AlgorithmId::one_shot, Protocol::simple, 4, 8})
            .limited_by == "latency: launch and flags of 4 ranks");
  CHECK(predict_direct(
            {Collective::all_gather, AlgorithmId::one_shot, Protocol::simple, 4, 64 * kMiB})
            .limited_by.find("GB/s between GPUs") != std::string::npos);
}

}  // namespace plan_plan_direct_gpu_tests
