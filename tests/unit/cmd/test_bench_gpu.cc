// The measurement, the soak and --vs nccl on GPU ranks: the fake CUDA driver's devices, works on
// host threads (tests/unit/runtime/gpu_ranks.h), a fake NCCL. All else is the product's own code.
#include <cstring>
#include <set>

#include "cmd/guarded_buffer.h"
#include "cmd/soak.h"
#include "cmd/versus.h"
#include "tests/fake_drivers/nccl_control.h"
#include "tests/unit/cmd/bench_ranks.h"
#include "tests/unit/runtime/gpu_ranks.h"

using namespace collctl;
using namespace collctl::cmd;
using namespace collctl::cmd::testing;
using collctl::runtime::testing::host_launcher;
using collctl::runtime::testing::set_up_gpus;
using kernels::Collective;
using kernels::DataType;

namespace {

BenchSpec gpu_bench(Collective collective) {
  BenchSpec spec = small_bench(collective);
  spec.wish = DeviceWish::cuda;
  spec.launcher = &host_launcher();
  return spec;
}

uint64_t wrong_timings(const BenchOutcome& outcome) {
  uint64_t wrong = 0;
  for (const BenchRow& row : outcome.sink.rows)
    for (const Timing* timing : {&row.out_of_place, &row.in_place})
      wrong += timing->measured && timing->wrong != 0;
  return wrong;
}

bool nothing_held() {
  INFO(fake_cuda::counts().text());
  CHECK(fake_cuda::counts() == fake_cuda::Counts{});
  return fake_cuda::counts() == fake_cuda::Counts{};
}

}  // namespace

TEST_CASE("buffers on a GPU: what is written is read, in pieces, at any alignment", "[gpu]") {
  set_up_gpus(1);
  {
    auto device = transport::Device::open(0);
    REQUIRE(device);
    auto blocks = DeviceBlocks::make(*device);
    REQUIRE(blocks);
    // Two whole blocks and a bit; a period that divides none of them.
    const uint64_t bytes = 2 * DeviceBlocks::kBlockBytes + 12345, period = 7919 * 8;
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
  for (int n : {1, 2, 3}) {
    for (int c = 0; c < kernels::kCollectiveCount; ++c) {
      set_up_gpus(n);
      BenchSpec spec = gpu_bench(Collective(c));
      spec.types = {DataType::float32, DataType::uint8, DataType::bfloat16};
      spec.misalign = c % 2 == 0 ? 0 : 8;
      const BenchOutcome outcome = run_gpu_bench(spec, n);
      INFO(kernels::name_of(Collective(c)) << " on " << n << ": " << outcome.first_error());
      REQUIRE(outcome.errors.empty());
      // A barrier has nothing to check: one timing that says so.
      CHECK(wrong_timings(outcome) == (Collective(c) == Collective::barrier ? 1 : 0));
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

TEST_CASE("beside NCCL: variants that do not serve a collective are left out", "[gpu]") {
  for (const Collective collective :
       {Collective::all_to_all, Collective::send_recv, Collective::gather, Collective::scatter}) {
    set_up_gpus(3);
    fake_nccl::set_up({.version = 22100});
    BenchSpec spec = gpu_bench(collective);
    spec.versus = versus_variants();
    const BenchOutcome outcome = run_gpu_bench(spec, 3);
    INFO(kernels::name_of(collective) << ": " << outcome.first_error());
    REQUIRE(outcome.errors.empty());
    for (const BenchRow& row : outcome.sink.rows) {
      std::set<std::string> variants;
      for (const VersusTiming& other : row.out_of_place.versus) variants.insert(other.variant);
      CHECK(variants == std::set<std::string>{"default", "registered"});
    }
    CHECK(nothing_held());
  }
}

TEST_CASE("beside NCCL: its failures are told as its own", "[gpu]") {
  BenchSpec spec = gpu_bench(Collective::all_reduce);
  spec.op_timeout_s = 1;
  spec.versus = {"symmetric"};
  const auto first_error = [&](const fake_nccl::Setup& setup) {
    set_up_gpus(2);
    fake_nccl::set_up(setup);
    const BenchOutcome outcome = run_gpu_bench(spec, 2);
    CHECK(outcome.errors.size() == 2);
    return outcome.first_error();
  };
  CHECK(first_error({.refuse_windows = true})
            .find("NCCL failed, not collctl: registering a buffer: invalid usage (the fake's last "
                  "words)") != std::string::npos);
  CHECK(nothing_held());
  CHECK(first_error({.refuse_init = true}).find("NCCL failed, not collctl: ncclCommInitRank") !=
        std::string::npos);
  CHECK(nothing_held());
  // Threads inside NCCL keep the devices: this case is the last.
  CHECK(first_error({.hang_init = true}).find("NCCL hangs, not collctl: ncclCommInitRank") !=
        std::string::npos);
}
