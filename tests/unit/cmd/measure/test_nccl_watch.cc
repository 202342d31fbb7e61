// NCCL watched: what its log says, and a run beside a fake NCCL whose results are looked at.
#include "base/drivers/nccl.h"
#include "cmd/measure/nccl_watch.h"
#include "tests/fake_drivers/nccl_control.h"
#include "tests/unit/cmd/measure/gpu_bench.h"

namespace nccl_watch_tests {

using namespace collctl;
using namespace collctl::cmd;
using namespace collctl::cmd::testing;
using collctl::runtime::testing::set_up_gpus;
using kernels::Collective;

namespace {

// Composed after the format strings of NCCL 2.28.
const std::string kLog =
    "n1:71:71 [0] NCCL INFO NCCL_DEBUG_SUBSYS set by environment to INIT\n"
    "n1:71:71 [0] NCCL INFO NCCL version 2.28.9+cuda12.9\n"
    "n1:71:80 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB "
    "eth0:10.0.0.1<0>\n"
    "n1:71:80 [0] NCCL INFO TUNER/Plugin: Using siteTuner (v5)\n"
    "n1:71:80 [0] NCCL INFO Using network IB\n"
    "n1:71:80 [0] NCCL INFO GPU Direct RDMA Disabled for GPU 0 / HCA 1 (distance 8 > 5)\n"
    "n1:71:80 [0] NCCL INFO Channel 00/02 : 0 1 2 3\n"
    "n1:71:80 [0] NCCL INFO Channel 01/02 : 0 3 2 1\n"
    "n1:71:80 [0] NCCL INFO Trees [0] 1/-1/-1->0->2 [1] 1/-1/-1->0->-1\n"
    "n1:71:80 [0] NCCL INFO Channel 00/0 : 3[1] -> 0[0] [receive] via NET/IB/0\n"
    "n1:71:80 [0] NCCL INFO Channel 01/0 : 3[1] -> 0[0] [receive] via NET/IB/0\n"
    "n1:71:80 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\n"
    "n1:71:80 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct/direct\n"
    "n1:71:80 [0] NCCL INFO 2 coll channels, 2 collnet channels, 0 nvls channels, 4 p2p channels, "
    "2 p2p channels per peer\n"
    "\n[2026-11-30 10:00:00] n1:71:80 [0] transport/net.cc:99 NCCL WARN something \x1b[1mbad\n"
    "n1:71:71 [0] NCCL INFO AllReduce: 1024 Bytes -> Algo Tree proto LL channel{Lo..Hi}={0..0}\n"
    "n1:71:71 [0] NCCL INFO AllReduce: 1048576 Bytes -> Algo Ring proto Simple "
    "channel{Lo..Hi}={0..1}\n"
    "n1:71:71 [0] NCCL INFO AllReduce: 1048576 Bytes -> Algo Ring proto Simple "
    "channel{Lo..Hi}={0..1}\n";

}  // namespace

TEST_CASE("NCCL's log: network, devices, ways, channels, choices", "[nccl]") {
  const NcclLog log = read_nccl_log(kLog, false);
  CHECK(log.version == "2.28.9+cuda12.9");
  CHECK(log.network == "IB");
  CHECK(log.network_line == "Using network IB");
  CHECK(log.devices_line ==
        "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.1<0>");
  CHECK(log.tuner == "siteTuner (v5)");
  CHECK(log.channels == 2);
  CHECK(log.nvls_channels == 0);
  CHECK(log.p2p_channels == 4);
  CHECK(log.ring == "0 1 2 3");
  CHECK(log.trees == "[0] 1/-1/-1->0->2 [1] 1/-1/-1->0->-1");
  REQUIRE(log.ways.size() == 3);
  CHECK(log.ways[0].via == "NET/IB/0");
  CHECK(log.ways[0].channels == 2);
  CHECK(log.ways[1].via == "P2P/CUMEM");
  CHECK(log.ways[2].via == "SHM/direct/direct");
  CHECK(log.crosses_hosts());
  REQUIRE(log.no_gdr() != nullptr);
  CHECK(log.no_gdr()->line == "Channel 00/0 : 3[1] -> 0[0] [receive] via NET/IB/0");
  CHECK(log.no_gdr_line == "GPU Direct RDMA Disabled for GPU 0 / HCA 1 (distance 8 > 5)");
  REQUIRE(log.choices.size() == 2);
  CHECK(log.choices[0].function == "AllReduce");
  CHECK(log.choices[0].bytes == 1024);
  CHECK(log.choices[0].algorithm == "Tree");
  CHECK(log.choices[0].protocol == "LL");
  CHECK(log.choices[1].channels == 2);
  REQUIRE(log.warnings.size() == 1);
  CHECK(log.warnings[0] == "something \\x1b[1mbad");
  CHECK_FALSE(log.cut);
}

TEST_CASE("NCCL's log: earlier versions, GPUDirect, and what is none of its lines", "[nccl]") {
  const NcclLog old = read_nccl_log(
      "NCCL version 2.21.5+cuda12.4\n"
      "n1:7:7 [1] NCCL INFO 2048 Bytes -> Algo 1 proto 2 time 17.500000\n"
      "n1:7:7 [1] NCCL INFO 4096 Bytes -> Algo 9 proto 2 time 17.500000\n"
      "n1:7:7 [1] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0/GDRDMA\n"
      "n1:7:7 [1] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/direct pointer/read\n",
      true);
  CHECK(old.version == "2.21.5+cuda12.4");
  CHECK(old.cut);
  REQUIRE(old.choices.size() == 2);
  CHECK(old.choices[0].function.empty());
  CHECK(old.choices[0].algorithm == "Ring");
  CHECK(old.choices[0].protocol == "Simple");
  CHECK(old.choices[1].algorithm == "9");
  CHECK(old.no_gdr() == nullptr);
  CHECK(old.ways.at(1).via == "P2P/direct pointer/read");
  const NcclLog none = read_nccl_log(
      "x NCCL INFO Channel 00/0 : \n NCCL INFO  Bytes -> Algo \nNCCL INFO x: -1 Bytes -> Algo 1 "
      "proto 2\nNCCL INFO  coll channels, \nNCCL WARN",
      false);
  CHECK(none.empty());
  CHECK(none.choices.empty());
  CHECK(none.channels == 0);
  std::string many;
  for (int i = 0; i < 1000; ++i) many += format("NCCL INFO Channel 0 : 0 -> 1 via NET/X/{}\n", i);
  CHECK(read_nccl_log(many, false).ways.size() == kMostNcclEntries);
}

TEST_CASE("NCCL's logs of one host together", "[nccl]") {
  NcclLog both = read_nccl_log(kLog, false);
  add_log(both, read_nccl_log(kLog, true));
  CHECK(both.ways[0].channels == 4);
  CHECK(both.warnings.size() == 1);
  CHECK(both.choices.size() == 2);
  CHECK(both.cut);
  NcclLog empty;
  add_log(empty, read_nccl_log(kLog, false));
  CHECK(empty.network == "IB");
}

TEST_CASE("beside NCCL, watched: its results are right, its log is read", "[gpu]") {
  for (const Collective collective : {Collective::all_reduce, Collective::reduce_scatter,
                                      Collective::all_gather, Collective::broadcast}) {
    set_up_gpus(2);
    fake_nccl::set_up({.version = 22105, .moves = true, .log = kLog});
    BenchSpec spec = gpu_bench(collective);
    spec.versus = {"default"};
    spec.versus_as_is = spec.versus_watched = true;
    const BenchOutcome outcome = run_gpu_bench(spec, 2);
    INFO(kernels::name_of(collective) << ": " << outcome.first_error());
    REQUIRE(outcome.errors.empty());
    REQUIRE_FALSE(outcome.sink.rows.empty());
    for (const BenchRow& row : outcome.sink.rows)
      for (const Timing* timing : {&row.out_of_place, &row.in_place})
        if (timing->measured) {
          REQUIRE(timing->versus.size() == 1);
          CHECK(timing->versus[0].wrong == 0);
          CHECK(timing->versus[0].wrong_rank == -1);
        }
    for (const auto& made : fake_nccl::made()) CHECK(made.nvls.empty());
    REQUIRE(outcome.sink.closings.size() == 1);
    const auto& seen = outcome.sink.closings[0].nccl;
    REQUIRE(seen.size() == 1);
    CHECK(seen[0].rank == 0);
    CHECK(seen[0].log.network == "IB");
    CHECK(seen[0].log.choices.size() == 2);
    CHECK_FALSE(seen[0].ras.status);
    CHECK(seen[0].ras.missing == "NCCL 2.21.5 has no RAS, which came with 2.24");
    CHECK(nothing_held());
  }
}

TEST_CASE("beside NCCL, watched: a wrong element is its own, and of which rank", "[gpu]") {
  set_up_gpus(3);
  fake_nccl::set_up({.version = 22105, .moves = true, .wrong_on = 1});
  BenchSpec spec = gpu_bench(Collective::all_reduce);
  spec.versus = {"default"};
  spec.versus_watched = true;
  const BenchOutcome outcome = run_gpu_bench(spec, 3);
  INFO(outcome.first_error());
  REQUIRE(outcome.errors.empty());
  CHECK(wrong_timings(outcome) == 0);
  CHECK(outcome.sink.faults.empty());
  for (const BenchRow& row : outcome.sink.rows) {
    if (row.count == 0) continue;
    CHECK(row.out_of_place.versus.at(0).wrong == 1);
    CHECK(row.out_of_place.versus.at(0).wrong_rank == 1);
  }
  CHECK(nothing_held());
}

TEST_CASE("beside NCCL: a collective that hangs is NCCL's, and ends by the deadline", "[gpu]") {
  set_up_gpus(2);
  fake_nccl::set_up({.hang_collective = true});
  BenchSpec spec = gpu_bench(Collective::all_reduce);
  spec.min_bytes = spec.max_bytes = 4096;
  spec.step_bytes = 0;
  spec.op_timeout_s = 2;
  spec.versus = {"default"};
  const BenchOutcome outcome = run_gpu_bench(spec, 2);
  fake_nccl::let_go();
  REQUIRE_FALSE(outcome.errors.empty());
  for (const Error& error : outcome.errors) {
    INFO(error.chain());
    CHECK(error.code == ErrorCode::deadline);
    CHECK(error.chain().find("NCCL") != std::string::npos);
  }
}

}  // namespace nccl_watch_tests
