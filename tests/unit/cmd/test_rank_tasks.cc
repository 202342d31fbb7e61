// bench_rank from end to end on thread ranks: every collective comes out right in every type and
// operation, rows and header show what ran, errors come back as errors.
#include <functional>
#include <set>

#include "base/format.h"
#include "cmd/measure/timing.h"
#include "cmd/rails/rails.h"
#include "cmd/rank_tasks.h"
#include "cmd/window_test/window_test.h"
#include "tests/how_much.h"
#include "tests/unit/cmd/measure/bench_ranks.h"

namespace rank_tasks_tests {

using namespace collctl;
using namespace collctl::cmd;
using namespace collctl::cmd::testing;
using kernels::Collective;
using kernels::DataType;
using kernels::RedOp;

namespace {

void every_row_is_right(Collective collective, int n, const std::vector<DataType>& types,
                        const std::vector<RedOp>& ops) {
  BenchSpec spec = small_bench(collective);
  spec.types = types;
  spec.ops = ops;
  spec.roots = {-1};
  const BenchOutcome outcome = run_bench(spec, n);
  INFO(kernels::name_of(collective) << " on " << n << ": " << outcome.first_error());
  REQUIRE(outcome.errors.empty());
  const bool rooted = collective == Collective::broadcast || collective == Collective::reduce ||
                      collective == Collective::gather || collective == Collective::scatter;
  const bool reduces = collective == Collective::all_reduce || collective == Collective::reduce ||
                       collective == Collective::reduce_scatter;
  if (collective == Collective::barrier) {
    CHECK(outcome.sink.rows.size() == 1);
    CHECK(outcome.sink.rows[0].out_of_place.measured);
    CHECK(outcome.sink.rows[0].out_of_place.wrong == -1);
    return;
  }
  CHECK(outcome.sink.rows.size() ==
        4 * types.size() * (reduces ? ops.size() : 1) * size_t(rooted ? n : 1));
  CHECK(wrong_timings(outcome) == 0);
  for (const DataFault& fault : outcome.sink.faults) CHECK(fault.message == "");
}

}  // namespace

TEST_CASE("bench rank: every collective, type and operation is right", "[bench_rank]") {
  std::vector<DataType> types;
  std::vector<RedOp> ops;
  for (int t = 0; t < kernels::kDataTypeCount; ++t) types.push_back(DataType(t));
  for (int o = 0; o < kernels::kRedOpCount; ++o) ops.push_back(RedOp(o));
  REQUIRE(types.size() == 12);
  REQUIRE(ops.size() == 5);
  for (int c = 0; c < kernels::kCollectiveCount; ++c) {
    if (test::nightly()) {
      for (const int n : {1, 2, 3, 5}) every_row_is_right(Collective(c), n, types, ops);
    } else {  // test_kernels has each type with each operation
      every_row_is_right(Collective(c), 1, {DataType::float32}, {RedOp::sum});
      every_row_is_right(Collective(c), 3, types, {RedOp::sum});
      every_row_is_right(Collective(c), 3, {DataType::int32}, ops);
    }
  }
}

// Ranks that somebody else started, as with --join.
struct JoinedSink : KeepingSink {
  bool every_rank() const override { return true; }
};

struct JoinedRecords : RecordSink {
  bool every_rank() const override { return true; }
};

TEST_CASE("the table of rank tasks", "[bench_rank]") {
  for (const RankTask* task : {&kMeasureTask, &kRailsTask, &kWindowTestTask}) {
    CHECK(find_rank_task(task->name) == task);
    CHECK(task->run != nullptr);
  }
  CHECK(find_rank_task("nonsense") == nullptr);
  CHECK(find_rank_task("") == nullptr);
}

TEST_CASE("a task is settled where its ranks compute", "[bench_rank]") {
  BenchSpec spec = small_bench(Collective::broadcast);
  spec.roots = {3};
  const auto on_cores = settled(task_of(spec), {false, "no GPU", 4});
  REQUIRE(on_cores);
  CHECK(on_cores->settings.device_request == DeviceRequest::cpu);
  CHECK(on_cores->settings.device_reason == "no GPU");
  const auto few = settled(task_of(spec), {false, "no GPU", 3});
  REQUIRE_FALSE(few);
  CHECK(few.error().code == ErrorCode::usage);
  spec.roots = {0};
  spec.cuda_graph = 2;
  CHECK_FALSE(settled(task_of(spec), {false, "no GPU", 3}));
  const auto on_gpus = settled(task_of(spec), {true, "GPUs", 3});
  REQUIRE(on_gpus);
  CHECK(on_gpus->settings.device_request == DeviceRequest::cuda);
  const auto back = bench_of(*on_gpus);
  REQUIRE(back);
  CHECK(back->cuda_graph == 2);
  CHECK(back->device_reason == "GPUs");
}

TEST_CASE("options of tasks survive, and are refused when they are not what they should be",
          "[bench_rank]") {
  const auto rails = record_of<RailsSpec>(
      json_of(RailsSpec{.message_bytes = 4096, .seconds = 0.5, .timeout_s = 2, .net = "ib"}));
  REQUIRE(rails);
  CHECK(rails->message_bytes == 4096);
  CHECK(rails->net == "ib");
  WindowTestSpec spec;
  spec.iterations = 7;
  spec.budget_s = 9;
  spec.transport = "net";
  const auto windows = record_of<WindowTestSpec>(json_of(spec));
  REQUIRE(windows);
  CHECK(windows->iterations == 7);
  CHECK(windows->budget_s == 9);
  CHECK(windows->transport == "net");
  for (const char* text : {"", "{}", "[]", "{\"message\":0}", "{\"iterations\":0}"}) {
    CHECK_FALSE(record_of<RailsSpec>(text));
    CHECK_FALSE(record_of<WindowTestSpec>(text));
  }
}

TEST_CASE("bench rank: joined ranks with different command lines are told apart", "[bench_rank]") {
  const auto outcome = [](int odd, const std::function<void(BenchSpec&)>& change) {
    std::vector<JoinedSink> sinks(3);
    return run_bench_ranks(small_bench(Collective::all_reduce), sinks, false,
                           [&](BenchSpec& spec, int rank) {
                             if (rank == odd) change(spec);
                           });
  };
  const auto all_say = [](const std::vector<Error>& errors, const std::string& message) {
    CHECK(errors.size() == 3);
    for (const Error& error : errors) {
      CHECK(error.code == ErrorCode::usage);
      CHECK(error.message == message);
    }
  };
  all_say(
      outcome(2, [](BenchSpec& spec) { spec.collective = Collective::all_gather; }),
      "rank 2 was started with another collective (\"allgather\", not \"allreduce\") than rank 0");
  all_say(outcome(1, [](BenchSpec& spec) { spec.iterations = 77; }),
          format("rank 1 was started with another --iters (77, not {}) than rank 0",
                 small_bench(Collective::all_reduce).iterations));
  // Ranks that do something else altogether.
  const auto with_task = [](int odd, const TaskSpec& other, const TaskSpec& usual) {
    std::vector<JoinedRecords> sinks(3);
    std::vector<TaskSpec> specs(3, usual);
    specs[size_t(odd)] = other;
    return run_task_ranks(specs, sinks);
  };
  const TaskSpec measure = task_of(small_bench(Collective::all_reduce));
  const TaskSpec rails{.task = &kRailsTask, .settings = {}, .options = json_of(RailsSpec{})};
  const TaskSpec windows{
      .task = &kWindowTestTask, .settings = {}, .options = json_of(WindowTestSpec{})};
  all_say(with_task(2, rails, measure),
          "rank 2 was started with another collective (\"rails\", not \"allreduce\") than rank 0");
  all_say(with_task(1, windows, measure),
          "rank 1 was started with another collective (\"window-test\", not \"allreduce\") than "
          "rank 0");
  all_say(with_task(0, rails, measure),
          "rank 1 was started with another collective (\"allreduce\", not \"rails\") than rank 0");
  TaskSpec larger = rails;
  larger.options = json_of(RailsSpec{.message_bytes = 2048, .net = ""});
  all_say(with_task(1, larger, rails),
          format("rank 1 was started with another --message (2048, not {}) than rank 0",
                 RailsSpec{}.message_bytes));
  // These options are a rank's own.
  CHECK(outcome(1, [](BenchSpec& spec) { spec.verbosity = 0, spec.op_timeout_s = 99; }).empty());
}

TEST_CASE("bench rank: rows and header say what ran", "[bench_rank]") {
  BenchSpec spec = small_bench(Collective::all_reduce);
  spec.min_bytes = spec.max_bytes = 4096;
  spec.algorithms = {"ring", "tree"};
  spec.protocols = {"simple", "ll"};
  spec.sync_each = true;
  spec.iterations = 7;
  const BenchOutcome outcome = run_bench(spec, 3);
  INFO(outcome.first_error());
  REQUIRE(outcome.errors.empty());
  REQUIRE(outcome.sink.headers.size() == 1);
  const BenchHeader& header = outcome.sink.headers[0];
  CHECK(header.ranks == 3);
  REQUIRE(header.hosts.size() == 1);
  CHECK(header.hosts[0].ranks == std::vector<int>{0, 1, 2});
  CHECK_FALSE(header.links.empty());
  CHECK(header.init_seconds > 0);
  REQUIRE(outcome.sink.rows.size() == 4);
  std::set<std::string> ran;
  for (const BenchRow& row : outcome.sink.rows) {
    ran.insert(row.algorithm + "/" + row.protocol);
    CHECK(row.channels >= 1);
    CHECK(row.bytes == 4096);
    CHECK(row.count == 1024);
    const Timing& t = row.out_of_place;
    CHECK(t.wrong == 0);
    CHECK(row.in_place.wrong == 0);
    CHECK(t.min_us > 0);
    CHECK(t.min_us <= t.p50_us);
    CHECK(t.p50_us <= t.p99_us);
    CHECK(t.p99_us <= t.max_us);
    CHECK(t.time_us >= t.min_us);
    CHECK(t.time_us <= t.max_us);
    CHECK(t.slowest_rank >= 0);
    CHECK(t.slowest_rank < 3);
    CHECK(t.busbw_GBps > t.algbw_GBps);
  }
  CHECK(ran == std::set<std::string>{"ring/simple", "ring/ll", "tree/simple", "tree/ll"});
  CHECK(outcome.sink.texts.size() == 4);
  CHECK(outcome.sink.texts[0] == "4 KiB, 1 of 4");
  CHECK(outcome.sink.phases == std::vector<std::string>{"connect", "measure", "finish"});
}

TEST_CASE("bench rank: what is not asked for is not measured", "[bench_rank]") {
  BenchSpec spec = small_bench(Collective::all_gather);
  spec.in_place = InPlace::in_place;
  spec.check = false;
  const BenchOutcome outcome = run_bench(spec, 2);
  INFO(outcome.first_error());
  REQUIRE(outcome.errors.empty());
  for (const BenchRow& row : outcome.sink.rows) {
    CHECK_FALSE(row.out_of_place.measured);
    CHECK(row.in_place.measured);
    CHECK(row.in_place.wrong == -1);
    CHECK_FALSE(row.has_op);
  }
}

TEST_CASE("bench rank: what cannot be is an error", "[bench_rank]") {
  auto code_of = [](const BenchSpec& spec) {
    const BenchOutcome outcome = run_bench(spec, 2);
    CHECK(outcome.errors.size() == 2);
    return outcome.errors.empty() ? ErrorCode::failed : outcome.errors[0].code;
  };
  BenchSpec spec = small_bench(Collective::all_to_all);
  spec.in_place = InPlace::in_place;
  CHECK(code_of(spec) == ErrorCode::usage);
  spec = small_bench(Collective::broadcast);
  spec.roots = {2};
  CHECK(code_of(spec) == ErrorCode::usage);
  spec = small_bench(Collective::all_gather);
  spec.algorithms = {"tree"};
  CHECK(code_of(spec) == ErrorCode::usage);
  spec = small_bench(Collective::all_reduce);
  spec.step_bytes = 0;
  spec.min_bytes = spec.max_bytes = uint64_t(1) << 50;
  CHECK(code_of(spec) == ErrorCode::unavailable);
}

TEST_CASE("bench timing: the slowest rank's time counts", "[bench]") {
  const MergeOptions options{Collective::all_reduce, 4000, 10};
  const std::vector<Samples> blocks{{1000, {}}, {5000, {}}, {3000, {}}, {2000, {}}};
  const Timing block = merge_samples(blocks, options);
  CHECK(block.time_us == 0.5);
  CHECK(block.slowest_rank == 1);
  CHECK(block.algbw_GBps == 8.0);
  CHECK(block.busbw_GBps == 12.0);
  CHECK(block.max_us == 0);
  CHECK(block.fastest_us == 0.1);
  CHECK(block.mean_us == 0.275);
  CHECK(block.slowest_us == 0.5);
  const std::vector<Samples> each{{600, {100, 200, 300}}, {900, {400, 100, 400}}};
  const Timing one = merge_samples(each, {Collective::broadcast, 100, 3});
  CHECK(one.min_us == 0.2);
  CHECK(one.max_us == 0.4);
  CHECK(one.p50_us == 0.4);
  CHECK(one.time_us == (400.0 + 200 + 400) / 3 / 1e3);
  CHECK(one.slowest_rank == 1);
  // --average: whose time counts; of three operations in a group each has a third of it.
  const auto whose = [&](const std::vector<Samples>& ranks, TimeOf time_of) {
    return merge_samples(ranks,
                         {Collective::broadcast, 100, int(ranks[0].each_ns.size()), 1, time_of});
  };
  CHECK(whose(each, TimeOf::rank0).time_us == 0.2);
  CHECK(whose(each, TimeOf::mean).time_us == (250.0 + 150 + 350) / 3 / 1e3);
  CHECK(whose(each, TimeOf::fastest).time_us == (100.0 + 100 + 300) / 3 / 1e3);
  CHECK(whose(each, TimeOf::fastest).p50_us == 0.1);
  CHECK(merge_samples(blocks, {Collective::all_reduce, 4000, 10, 1, TimeOf::mean}).time_us ==
        0.275);
  CHECK(merge_samples(blocks, {Collective::all_reduce, 4000, 10, 1, TimeOf::rank0}).time_us == 0.1);
  CHECK(merge_samples(blocks, {Collective::all_reduce, 4000, 10, 5}).time_us == 0.1);
}

TEST_CASE("bench timing: halves that disagree are unsteady", "[bench]") {
  const auto unsteady = [](std::vector<int64_t> ns) {
    const std::vector<Samples> ranks{{1, std::move(ns)}};
    return merge_samples(ranks, {Collective::broadcast, 100, 8}).unsteady;
  };
  CHECK(unsteady({900, 900, 900, 900, 2000, 2000, 2000, 2000}));
  CHECK(unsteady({2000, 2000, 2000, 2000, 900, 900, 900, 900}));
  CHECK_FALSE(unsteady({2000, 900, 900, 900, 900, 900, 2000, 900}));  // a few are no half
  CHECK_FALSE(unsteady({900, 900, 900, 900, 1100, 1100, 1100, 1100}));
  CHECK_FALSE(unsteady({100, 100, 100, 100, 200, 200, 200, 200}));  // the clock's own
  CHECK_FALSE(unsteady({900, 900, 900, 2000, 2000, 2000}));         // too few to say
}

TEST_CASE("rails waits for other ranks no longer than is left of the start", "[bench_rank]") {
  std::vector<RecordSink> alone(1);
  TaskSpec rails{.task = &kRailsTask, .settings = {}, .options = json_of(RailsSpec{})};
  rails.settings.start_timeout_s = 40;
  rails.settings.start_left_s = 1;
  const int64_t began_ns = now_ns();
  const auto errors =
      run_ranks<RecordSink>(alone, [&](const runtime::UniqueId& id, int rank, RecordSink& sink) {
        return run_task({rails, id, rank, 2, sink});
      });
  REQUIRE(errors.size() == 1);
  CHECK(errors[0].code == ErrorCode::deadline);
  CHECK(base::seconds_since(began_ns) < 10);
}

}  // namespace rank_tasks_tests
