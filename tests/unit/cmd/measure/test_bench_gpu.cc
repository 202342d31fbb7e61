// The measurement and the soak on GPU ranks: the fake CUDA driver's devices, works on
// host threads (tests/unit/runtime/gpu_ranks.h). All else is the product's own code.
#include <cstring>
#include <set>

#include "cmd/measure/soak.h"
#include "cmd/verify/guarded_buffer.h"
#include "tests/how_much.h"
#include "tests/unit/cmd/measure/gpu_bench.h"

namespace measure_bench_gpu_tests {

using namespace collctl;
using namespace collctl::cmd;
using namespace collctl::cmd::testing;
using collctl::runtime::testing::set_up_gpus;
using kernels::Collective;
using kernels::DataType;

TEST_CASE("buffers on a GPU: what is written is read, in pieces, at any alignment", "[gpu]") {
  set_up_gpus(1);
  {
    auto device = transport::Device::open(0);
    REQUIRE(device);
    // Two whole blocks and a bit; a period that divides none of them.
    constexpr uint64_t kBlock = uint64_t(5) << 18;
    auto blocks = DeviceBlocks::make(*device, kBlock);
    REQUIRE(blocks);
    REQUIRE((*blocks)->block_bytes() == kBlock);
    REQUIRE((*DeviceBlocks::make(*device, 1))->block_bytes() == uint64_t(1) << 20);
    const uint64_t bytes = 2 * kBlock + 12345, period = 7919 * 8;
    const auto value = [&](uint64_t i) { return uint8_t((i % period) * 31 >> 3); };
    for (uint64_t shift : {uint64_t(0), uint64_t(5), uint64_t(4095)}) {
      GuardedBuffer buffer(*blocks);
      buffer.misalign(shift);
      REQUIRE(buffer.reserve(bytes));
      CHECK(reinterpret_cast<uintptr_t>(buffer.data()) % 4096 == shift);
      REQUIRE(buffer.poison(bytes));
      for (const uint64_t with : {period, uint64_t(0)}) {
        REQUIRE(buffer.zero(bytes));
        REQUIRE(buffer.write(0, bytes, with, [&](uint8_t* piece, uint64_t at, uint64_t n) {
          for (uint64_t i = 0; i < n; ++i) piece[i] = value(at + i);
        }));
        uint64_t seen = 0, wrong = 0;
        REQUIRE(buffer.read(0, bytes, [&](const uint8_t* piece, uint64_t at, uint64_t n) {
          CHECK(at == seen);
          for (uint64_t i = 0; i < n; ++i) wrong += piece[i] != value(at + i);
          seen += n;
        }));
        CHECK(seen == bytes);
        CHECK(wrong == 0);
      }
      auto damaged = buffer.damaged(bytes);
      REQUIRE(damaged);
      CHECK(*damaged == 0);
      REQUIRE(
          buffer.write(bytes - 1, 1, 0, [](uint8_t* piece, uint64_t, uint64_t) { *piece = 1; }));
      damaged = buffer.damaged(bytes - 1);  // the guard zone begins one byte earlier now
      REQUIRE(damaged);
      CHECK(*damaged == 1);
    }
  }
  CHECK(nothing_held());
}

TEST_CASE("bench on GPU ranks: collectives, types, in place and misaligned, right", "[gpu]") {
  for (int n : test::nightly() ? std::vector{1, 2, 3} : std::vector{2}) {
    for (const BenchOp& op : bench_ops()) {
      if (!check_ranks(op, n)) continue;
      set_up_gpus(n);
      BenchSpec spec = gpu_bench(op);
      spec.types = {DataType::float32, DataType::uint8, DataType::bfloat16};
      spec.misalign = int(op.calls) % 2 == 0 ? 0 : 8;
      const BenchOutcome outcome = run_gpu_bench(spec, n);
      INFO(name_of(op) << " on " << n << ": " << outcome.first_error());
      REQUIRE(outcome.errors.empty());
      // A barrier has nothing to check: one timing that says so.
      CHECK(wrong_timings(outcome) == (op == Collective::barrier ? 1 : 0));
      REQUIRE(outcome.sink.headers.size() == 1);
      const BenchHeader& header = outcome.sink.headers[0];
      CHECK(header.device == "cuda");
      REQUIRE(header.hosts.size() == 1);
      REQUIRE(header.hosts[0].gpus.size() == size_t(n));
      std::set<std::string> buses;
      for (const GpuLine& gpu : header.hosts[0].gpus) buses.insert(gpu.bus_id);
      CHECK(buses.size() == size_t(n));
      CHECK(nothing_held());
    }
  }
}

TEST_CASE("bench on GPU ranks with buffers in windows: right, direct where asked for", "[gpu]") {
  for (const Collective c :
       {Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter,
        Collective::all_to_all, Collective::broadcast})
    for (const bool window : {true, false}) {
      set_up_gpus(2);
      BenchSpec spec = gpu_bench(c);
      spec.window = window;
      // By the model sums are as fast through slots; the others find no slots for so much.
      if (window && c == Collective::all_reduce) spec.algorithms = {"two-shot"};
      spec.misalign = 8;
      spec.cuda_graph = 2;
      spec.min_bytes = 16 << 10;
      spec.max_bytes = 1 << 20;
      spec.step_bytes = 0;
      spec.step_factor = 64;
      const BenchOutcome outcome = run_gpu_bench(spec, 2);
      INFO(kernels::name_of(c) << ": " << outcome.first_error());
      REQUIRE(outcome.errors.empty());
      CHECK(wrong_timings(outcome) == 0);
      REQUIRE_FALSE(outcome.sink.rows.empty());
      for (const BenchRow& row : outcome.sink.rows) {
        INFO(row.bytes << " bytes");
        if (!window || row.count == 0) CHECK_FALSE(row.direct);
        if (window && row.bytes >= 1 << 20) CHECK(row.direct);
      }
      CHECK(outcome.sink.rows.back().bytes >= 1 << 20);
      const auto& windows = outcome.sink.headers.at(0).windows;
      REQUIRE(windows.has_value() == window);
      if (window) {
        CHECK(windows->bytes > 0);
        CHECK(windows->teams == std::vector<std::vector<int>>{{0, 1}});
        CHECK(windows->note.empty());
      }
      CHECK(nothing_held());
    }
}

TEST_CASE("bench on GPU ranks through CUDA graphs: right, and an operation's share", "[gpu]") {
  set_up_gpus(2);
  BenchSpec spec = gpu_bench(Collective::all_reduce);
  spec.iterations = 7;
  spec.cuda_graph = 3;
  const BenchOutcome outcome = run_gpu_bench(spec, 2);
  INFO(outcome.first_error());
  REQUIRE(outcome.errors.empty());
  CHECK(wrong_timings(outcome) == 0);
  CHECK(outcome.sink.headers.at(0).cuda_graph == 3);
  CHECK(nothing_held());
}

TEST_CASE("bench on GPU ranks: each operation is expected to take its share of the block",
          "[gpu]") {
  const auto expected = [](int iterations, int graph) {
    set_up_gpus(2);
    BenchSpec spec = gpu_bench(Collective::all_reduce);
    spec.iterations = iterations;
    spec.cuda_graph = graph;
    const BenchOutcome outcome = run_gpu_bench(spec, 2);
    INFO(outcome.first_error());
    REQUIRE(outcome.errors.empty());
    return outcome.sink.rows.back().expected.value();
  };
  CHECK(expected(1, 0).time_us - expected(2, 0).time_us == Approx(11 - 11.0 / 2));
  // Two graphs of three.
  CHECK(expected(1, 0).time_us - expected(4, 3).time_us >= Approx(11 - 11.0 / 6));
}

TEST_CASE("bench of operations in groups: right, and an operation's share", "[gpu]") {
  for (const int graph : {0, 3})
    for (const Collective collective : {Collective::all_reduce, Collective::send_recv}) {
      set_up_gpus(2);
      BenchSpec spec = gpu_bench(collective);
      spec.iterations = 4;
      spec.cuda_graph = graph;
      spec.grouped = 5;
      spec.sync_each = graph == 0;
      const BenchOutcome outcome = run_gpu_bench(spec, 2);
      INFO(outcome.first_error());
      REQUIRE(outcome.errors.empty());
      CHECK(wrong_timings(outcome) == 0);
      CHECK(outcome.sink.headers.at(0).grouped == 5);
      CHECK(nothing_held());
    }
}

TEST_CASE("bench on GPU ranks: of several choices each is measured where it serves", "[gpu]") {
  using runtime::testing::kHostWindowBytes;
  BenchSpec spec = gpu_bench(Collective::all_reduce);
  spec.min_bytes = kHostWindowBytes;
  spec.max_bytes = 2 * kHostWindowBytes;
  spec.step_bytes = 0;
  spec.step_factor = 2;
  spec.protocols = {"simple"};
  spec.algorithms = {"ring", "one-shot"};
  set_up_gpus(2);
  const BenchOutcome some = run_gpu_bench(spec, 2);
  INFO(some.first_error());
  REQUIRE(some.errors.empty());
  std::vector<std::pair<std::string, uint64_t>> rows;
  for (const BenchRow& row : some.sink.rows) rows.emplace_back(row.algorithm, row.bytes);
  CHECK(rows == std::vector<std::pair<std::string, uint64_t>>{{"ring", kHostWindowBytes},
                                                              {"ring", 2 * kHostWindowBytes},
                                                              {"one-shot", kHostWindowBytes}});
  CHECK(nothing_held());
  // A size that none of them serves is an error.
  spec.algorithms = {"one-shot", "two-shot"};
  set_up_gpus(2);
  const BenchOutcome none = run_gpu_bench(spec, 2);
  REQUIRE_FALSE(none.errors.empty());
  CHECK(none.errors[0].code == ErrorCode::usage);
  CHECK(none.first_error().find("has no kernel for allreduce of 2097152 bytes") !=
        std::string::npos);
  CHECK_FALSE(none.sink.rows.empty());
  CHECK(nothing_held());
}

TEST_CASE("bench on GPU ranks: buffers that do not fit name what is free", "[gpu]") {
  set_up_gpus(2);
  BenchSpec spec = gpu_bench(Collective::all_reduce);
  spec.min_bytes = spec.max_bytes = uint64_t(6) << 30;  // twice that on 8 GiB
  spec.step_bytes = 0;
  const BenchOutcome outcome = run_gpu_bench(spec, 2);
  REQUIRE_FALSE(outcome.errors.empty());
  CHECK(outcome.errors[0].code == ErrorCode::unavailable);
  CHECK(outcome.first_error().find("12 GiB of buffers on GPU") != std::string::npos);
  CHECK(nothing_held());
}

TEST_CASE("soak on GPU ranks", "[gpu]") {
  set_up_gpus(3);
  BenchSpec spec = gpu_bench(Collective::all_reduce);
  spec.soak = true;
  spec.soak_seed = 11;
  spec.soak_operations = 120;
  spec.max_bytes = 64 << 10;
  const BenchOutcome outcome = run_gpu_bench(spec, 3);
  INFO(outcome.first_error());
  CHECK(outcome.errors.empty());
  CHECK(nothing_held());
}

TEST_CASE("soak on GPU ranks, most buffers in windows", "[gpu]") {
  set_up_gpus(3);
  const auto before = runtime::testing::launch_counts();
  BenchSpec spec = gpu_bench(Collective::all_reduce);
  spec.window = true;
  spec.soak = true;
  spec.soak_seed = 12;
  spec.soak_operations = 120;
  spec.max_bytes = 64 << 10;
  const BenchOutcome outcome = run_gpu_bench(spec, 3);
  INFO(outcome.first_error());
  CHECK(outcome.errors.empty());
  const auto after = runtime::testing::launch_counts();
  CHECK(after.direct > before.direct);
  CHECK(after.works > before.works);
  CHECK(nothing_held());
}

}  // namespace measure_bench_gpu_tests
