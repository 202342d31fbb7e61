// --vs nccl on GPU ranks, and what clocks do meanwhile: the fake CUDA driver's devices, a fake
// NCCL, works on host threads. All else is the product's own code.
#include <set>

#include "cmd/measure/running.h"
#include "cmd/measure/versus.h"
#include "tests/fake_drivers/nccl_control.h"
#include "tests/fake_drivers/nvml_control.h"
#include "tests/unit/cmd/measure/gpu_bench.h"

namespace measure_beside_nccl_tests {

using namespace collctl;
using namespace collctl::cmd;
using namespace collctl::cmd::testing;
using collctl::runtime::testing::set_up_gpus;
using kernels::Collective;

TEST_CASE("beside NCCL: a communicator for each variant, its environment, its medians", "[gpu]") {
  set_up_gpus(2);
  fake_nccl::set_up({});
  BenchSpec spec = gpu_bench(Collective::all_reduce);
  spec.min_bytes = spec.max_bytes = 4096;
  spec.step_bytes = 0;
  spec.iterations = 4;
  spec.versus = {"default", "ring-ll128", "tree", "registered", "symmetric"};
  const BenchOutcome outcome = run_gpu_bench(spec, 2);
  INFO(outcome.first_error());
  REQUIRE(outcome.errors.empty());
  CHECK(outcome.sink.headers.at(0).versus ==
        "nccl 2.28.9: default, ring-ll128, tree, registered, symmetric");
  REQUIRE(outcome.sink.rows.size() == 1);
  const Timing& timing = outcome.sink.rows[0].out_of_place;
  REQUIRE(timing.versus.size() == 5);
  for (size_t i = 1; i < 5; ++i) CHECK(timing.versus[i - 1].time_us <= timing.versus[i].time_us);
  CHECK(timing.versus[0].time_us >= 30);  // what the fake sleeps
  CHECK(timing.ratio() == timing.versus[0].time_us / timing.time_us);
  CHECK(timing.wrong == 0);
  const auto made = fake_nccl::made();
  REQUIRE(made.size() == 10);
  for (size_t i = 0; i < made.size(); ++i) {
    const std::string variant = spec.versus[i / 2];
    CHECK(made[i].algorithm == (variant == "ring-ll128" ? "Ring"
                                : variant == "tree"     ? "Tree"
                                                        : ""));
    CHECK(made[i].protocol == (variant == "ring-ll128" ? "LL128" : ""));
    CHECK(made[i].nvls == "0");
  }
  // Both placements, 5 turns, 5 variants, 4 iterations each besides what warms up; on 2 ranks.
  CHECK(fake_nccl::counts().calls >= 2 * 5 * 5 * 4 * 2);
  CHECK(fake_nccl::counts().communicators == 0);
  CHECK(fake_nccl::counts().windows == 0);
  CHECK(fake_nccl::counts().registrations == 0);
  CHECK(nothing_held());
}

TEST_CASE("beside NCCL, both through CUDA graphs", "[gpu]") {
  set_up_gpus(2);
  fake_nccl::set_up({});
  BenchSpec spec = gpu_bench(Collective::all_reduce);
  spec.iterations = 6;
  spec.cuda_graph = 3;
  spec.versus = {"default", "ring"};
  const BenchOutcome outcome = run_gpu_bench(spec, 2);
  INFO(outcome.first_error());
  REQUIRE(outcome.errors.empty());
  REQUIRE(outcome.sink.rows.size() == 4);
  for (const BenchRow& row : outcome.sink.rows)
    for (const Timing* timing : {&row.out_of_place, &row.in_place}) {
      CHECK(timing->wrong == 0);
      REQUIRE(timing->versus.size() == 2);
      CHECK(timing->versus[0].time_us >= 30);  // an operation's share of its graph
    }
  CHECK(nothing_held());
}

TEST_CASE("beside NCCL: patterns as its sends and receives", "[gpu]") {
  for (const BenchOp& op : {kAllToAllV, kHypercube}) {
    set_up_gpus(2);
    fake_nccl::set_up({});
    BenchSpec spec = gpu_bench(op);
    spec.versus = {"default"};
    const BenchOutcome outcome = run_gpu_bench(spec, 2);
    INFO(name_of(op) << ": " << outcome.first_error());
    REQUIRE(outcome.errors.empty());
    CHECK(wrong_timings(outcome) == 0);
    for (const BenchRow& row : outcome.sink.rows) {
      REQUIRE(row.out_of_place.versus.size() == 1);
      CHECK(row.out_of_place.versus[0].time_us >= 30);
    }
    CHECK(fake_nccl::counts().unmatched == 0);
    CHECK(nothing_held());
  }
}

TEST_CASE("beside NCCL, both in groups", "[gpu]") {
  for (const BenchOp& collective :
       {BenchOp(Collective::all_reduce), BenchOp(Collective::send_recv), kAllToAllV}) {
    set_up_gpus(2);
    fake_nccl::set_up({});
    BenchSpec spec = gpu_bench(collective);
    spec.min_bytes = 500;
    spec.step_bytes = 500;
    spec.iterations = 3;
    spec.grouped = 4;
    spec.versus = {"default"};
    const BenchOutcome outcome = run_gpu_bench(spec, 2);
    INFO(outcome.first_error());
    REQUIRE(outcome.errors.empty());
    CHECK(wrong_timings(outcome) == 0);
    const int calls = fake_nccl::counts().calls;
    CHECK(calls >= 4 * (3 + spec.warmup));
    for (const BenchRow& row : outcome.sink.rows) {
      REQUIRE(row.out_of_place.versus.size() == 1);
      CHECK(row.out_of_place.versus[0].time_us >= 30);  // the fake's, of each in the group
    }
    CHECK(nothing_held());
  }
}

TEST_CASE("beside NCCL: variants that do not serve a collective are left out", "[gpu]") {
  for (const Collective collective :
       {Collective::all_to_all, Collective::send_recv, Collective::gather, Collective::scatter}) {
    set_up_gpus(3);
    fake_nccl::set_up({.version = 22100});
    BenchSpec spec = gpu_bench(collective);
    spec.min_bytes = spec.max_bytes = 1000;
    spec.versus = versus_variants();
    const BenchOutcome outcome = run_gpu_bench(spec, 3);
    INFO(kernels::name_of(collective) << ": " << outcome.first_error());
    REQUIRE(outcome.errors.empty());
    for (const BenchRow& row : outcome.sink.rows) {
      std::set<std::string> variants;
      for (const VersusTiming& other : row.out_of_place.versus) variants.insert(other.variant);
      CHECK(variants == std::set<std::string>{"default", "registered"});
    }
    CHECK(fake_nccl::counts().unmatched == 0);
    CHECK(nothing_held());
  }
}

TEST_CASE("beside NCCL: what it refuses of its variants is left out, with the reason", "[gpu]") {
  BenchSpec spec = gpu_bench(Collective::all_reduce);
  spec.min_bytes = spec.max_bytes = 4096;
  spec.step_bytes = 0;
  const auto outcome_of = [&](const fake_nccl::Setup& setup, std::vector<std::string> variants) {
    set_up_gpus(2);
    fake_nccl::set_up(setup);
    spec.versus = std::move(variants);
    BenchOutcome outcome = run_gpu_bench(spec, 2);
    INFO(outcome.first_error());
    REQUIRE(outcome.errors.empty());
    REQUIRE(outcome.sink.closings.size() == 1);
    CHECK(fake_nccl::counts().communicators == 0);
    CHECK(nothing_held());
    return outcome;
  };
  const auto measured = [](const BenchOutcome& outcome) {
    std::set<std::string> variants;
    for (const VersusTiming& v : outcome.sink.rows.at(0).out_of_place.versus)
      variants.insert(v.variant);
    return variants;
  };
  using Names = std::set<std::string>;
  // By the buffers, by the algorithm in its first call, by the version: in a graph or not.
  for (const int graph : {0, 2}) {
    spec.cuda_graph = graph;
    const BenchOutcome windows = outcome_of({.refuse_windows = true}, {"ring", "symmetric"});
    CHECK(measured(windows) == Names{"ring"});
    const auto& out = windows.sink.closings[0].left_out;
    REQUIRE(out.size() == 1);
    CHECK(out[0].variant == "symmetric");
    CHECK(out[0].reason.find("NCCL failed, not collctl: registering a buffer: invalid usage (the "
                             "fake's last words)") != std::string::npos);
    const BenchOutcome tree = outcome_of({.refuse_algorithm = "Tree"}, {"default", "tree"});
    CHECK(measured(tree) == Names{"default"});
    REQUIRE(tree.sink.closings[0].left_out.size() == 1);
    CHECK(tree.sink.closings[0].left_out[0].variant == "tree");
  }
  spec.cuda_graph = 0;
  const BenchOutcome old = outcome_of({.version = 22100}, {"symmetric"});
  CHECK(measured(old).empty());
  REQUIRE(old.sink.closings[0].left_out.size() == 1);
  CHECK(old.sink.closings[0].left_out[0].reason == "nccl 2.21.0 is too old for it");
  CHECK_FALSE(old.sink.closings[0].costs);
  CHECK(old.sink.rows.at(0).out_of_place.wrong == 0);
  const BenchOutcome start = outcome_of({.refuse_init = true}, {"ring"});
  CHECK(measured(start).empty());
  CHECK(start.sink.closings[0].left_out.at(0).reason.find("ncclCommInitRank") != std::string::npos);
}

TEST_CASE("beside NCCL: all its variants through CUDA graphs, of send and receive as well",
          "[gpu]") {
  for (const Collective collective : {Collective::all_reduce, Collective::send_recv}) {
    set_up_gpus(2);
    fake_nccl::set_up({});
    BenchSpec spec = gpu_bench(collective);
    spec.min_bytes = spec.max_bytes = 4096;
    spec.step_bytes = 0;
    spec.iterations = 4;
    spec.cuda_graph = 2;
    spec.versus_best = true;
    for (const std::string& variant : versus_variants())
      if (versus_serves(variant, collective)) spec.versus.push_back(variant);
    const BenchOutcome outcome = run_gpu_bench(spec, 2);
    INFO(kernels::name_of(collective) << ": " << outcome.first_error());
    REQUIRE(outcome.errors.empty());
    REQUIRE(outcome.sink.rows.size() == 1);
    CHECK(outcome.sink.rows[0].out_of_place.versus.size() == spec.versus.size());
    CHECK(spec.versus.size() > 1);
    CHECK(outcome.sink.closings.at(0).left_out.empty());
    CHECK(nothing_held());
  }
}

TEST_CASE("beside NCCL: both sides' start and memory, watched alike", "[gpu]") {
  constexpr uint64_t kBuffers = uint64_t(48) << 20, kCode = uint64_t(80) << 20;
  set_up_gpus(2);
  fake_nccl::set_up({.init_ms = 300, .buffer_bytes = kBuffers, .code_bytes = kCode});
  BenchSpec spec = gpu_bench(Collective::all_reduce);
  spec.versus = {"default", "ring"};
  const BenchOutcome outcome = run_gpu_bench(spec, 2);
  INFO(outcome.first_error());
  REQUIRE(outcome.errors.empty());
  REQUIRE(outcome.sink.closings.size() == 1);
  const BenchClosing& closing = outcome.sink.closings[0];
  CHECK(closing.costs);
  CHECK(closing.other == "nccl 2.28.9");
  CHECK(closing.other_variant == "default");
  // The fake takes buffers when it is made and code in the first collective; at its end only
  // buffers come back. The bench's own allocations lie between and do not count.
  CHECK(closing.other_cost.taken_bytes == kBuffers + kCode);
  CHECK(closing.other_cost.buffer_bytes == kBuffers);
  CHECK(closing.other_cost.seconds >= 0.3);
  // Our kernels here have no code: all that is taken is what the communicator counts as its own,
  // but for what it allocates later and the whole pages of it.
  const GpuLine& gpu = outcome.sink.headers.at(0).hosts.at(0).gpus.at(0);
  CHECK(closing.own_cost.buffer_bytes >= gpu.held_bytes);
  CHECK(closing.own_cost.taken_bytes >= gpu.held_bytes);
  CHECK(closing.own_cost.seconds > 0);
  CHECK(closing.own_cost.seconds < 30);
  fake_nccl::unload();
  CHECK(nothing_held());
}

TEST_CASE("beside NCCL: our first collective is over before the other side starts", "[gpu]") {
  struct LookingSink : KeepingSink {
    uint64_t calls = 0;
    void phase(int rank, const std::string& name) override {
      if (name == "start nccl")
        for (const RankDoing& doing : ranks_doing())
          if (doing.rank == rank) calls = doing.calls;
    }
  };
  set_up_gpus(2);
  fake_nccl::set_up({});
  BenchSpec spec = gpu_bench(Collective::all_reduce);
  spec.versus = {"default"};
  std::vector<LookingSink> sinks(2);
  const auto errors = run_bench_ranks(spec, sinks, true);
  REQUIRE(errors.empty());
  for (const LookingSink& sink : sinks) CHECK(sink.calls == 1);
  fake_nccl::unload();
  CHECK(nothing_held());
}

TEST_CASE("clocks: what throttles a GPU before the run, and what only during it", "[gpu]") {
  set_up_gpus(2);
  // The fake's GPUs count downwards from the last bus. 0x1 is idle: no reason. 0x4 power cap from
  // the beginning on GPU 0; on GPU 1 0x20 and 0x40, heat, from the third look on: the first is the
  // header's.
  const std::string first = "0000:11:00.0", second = "0000:10:00.0";
  fake_nvml::set_throttle(first, {0x5});
  fake_nvml::set_throttle(second, {0x1, 0x1, 0x60, 0x0});
  const BenchSpec spec = gpu_bench(Collective::all_reduce);
  const BenchOutcome outcome = run_gpu_bench(spec, 2);
  fake_nvml::set_throttle(first, {});
  fake_nvml::set_throttle(second, {});
  INFO(outcome.first_error());
  REQUIRE(outcome.errors.empty());
  const auto& gpus = outcome.sink.headers.at(0).hosts.at(0).gpus;
  CHECK(gpus.at(0).bus_id == first);
  CHECK(gpus.at(0).note == "throttled: power cap; SM clock 990 of 1980 MHz");
  CHECK(gpus.at(1).note.empty());
  REQUIRE(outcome.sink.closings.size() == 1);
  const auto& throttled = outcome.sink.closings[0].throttled;
  REQUIRE(throttled.size() == 1);
  CHECK(throttled[0].bus_id == second);
  CHECK(throttled[0].rank == 1);
  CHECK(throttled[0].why ==
        "throttled: heat (software), heat (hardware); SM clock 990 of 1980 MHz");
  CHECK(nothing_held());
}

TEST_CASE("beside NCCL: its failures are told as its own", "[gpu]") {
  BenchSpec spec = gpu_bench(Collective::all_reduce);
  spec.op_timeout_s = 4;
  spec.versus = {"default"};
  const auto first_error = [&](const fake_nccl::Setup& setup) {
    set_up_gpus(2);
    fake_nccl::set_up(setup);
    const BenchOutcome outcome = run_gpu_bench(spec, 2);
    CHECK(outcome.errors.size() == 2);
    return outcome.first_error();
  };
  CHECK(first_error({.refuse_init = true}).find("NCCL failed, not collctl: ncclCommInitRank") !=
        std::string::npos);
  CHECK(nothing_held());
  CHECK(first_error({.hang_init = true}).find("NCCL hangs, not collctl: ncclCommInitRank") !=
        std::string::npos);
  // Threads inside NCCL keep the devices until they are let go.
  fake_nccl::set_up({});
  for (int i = 0; i < 1000 && !(fake_cuda::counts() == fake_cuda::Counts{}); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  CHECK(nothing_held());
}

}  // namespace measure_beside_nccl_tests
