// The form of nccl-tests 2.19, against lines of its own runs: readers count columns and blanks.
#include "tests/unit/cmd/report/report_rows.h"

namespace report_nccl_tests_tests {

using namespace collctl;
using namespace collctl::cmd;
using namespace collctl::cmd::testing;

namespace {

Captured nccl_tests(const JobOutcome& outcome, const std::vector<BenchRow>& rows,
                    const BenchHeader& header = header_of(2), const BenchSpec& spec = {}) {
  OutputOptions output;
  output.format = Format::nccl_tests;
  return capture(
      output, outcome,
      [&](Reporter& reporter) {
        reporter.on(header);
        for (const BenchRow& r : rows) reporter.on(r);
      },
      nullptr, spec);
}

}  // namespace

TEST_CASE("the form of nccl-tests has its header, columns and footer", "[cmd]") {
  BenchHeader header = header_of(2);
  header.device = "cuda";
  header.hosts[0].devices = {0, 1};
  header.hosts[0].pids = {6899, 6900};
  header.hosts[0].gpus = {{"NVIDIA H100 80GB HBM3", "0000:04:00.0", 0, ""},
                          {"NVIDIA H100 80GB HBM3", "0000:0b:00.0", 0, ""}};
  BenchRow large = row(8589934592u, 34719.2, 463.9);
  large.in_place.time_us = 1234567.89;
  large.in_place.wrong = -1;
  const Captured run = nccl_tests({}, {row(8, 12.3, 0.001), large}, header);
  CHECK(run.code == 0);
  // The output for the default spec; -e is 128M on GPUs.
  CHECK(run.out ==
        R"(# nccl-tests version 2.19.6 nccl-headers=0 nccl-library=0 (as written by collctl 0.1.0)
# Collective test starting: all_reduce_perf
# nThread 1 nGpus 1 minBytes 8 maxBytes 134217728 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0 unalign: 0
#
# Using devices
#  Rank  0 Group  0 Pid   6899 on  elsewhere device  0 [0000:04:00] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid   6900 on  elsewhere device  1 [0000:0b:00] NVIDIA H100 80GB HBM3
#
#                                                              out-of-place                       in-place          
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong 
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)         
           8             2     float     sum      -1    12.30    0.00    0.00       0    13.53    0.00    0.00       0
  8589934592    2147483648     float     sum      -1  34719.2  309.27  463.90       0  1234568  278.34  417.51     N/A
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 220.353 
#
# Collective test concluded: all_reduce_perf
#

)");
}

TEST_CASE("the form of nccl-tests: cores, other types, wrong data, what was not measured",
          "[cmd]") {
  BenchRow r = row(16, 5, 0.01);
  r.type = kernels::DataType::float16;
  r.has_op = false;
  r.root = 1;
  r.out_of_place.wrong = 3;
  r.out_of_place.time_us = 123456789;
  r.in_place = {};
  const Captured run = nccl_tests({}, {r});
  CHECK(run.code == 7);
  CHECK(run.out.find("#  Rank  1 Group  0 Pid      0 on  elsewhere device  1 [0000:00:00] CPU\n") !=
        std::string::npos);
  CHECK(run.out.find("          16             4      half    none       1  1.2e+08    0.01    0.01"
                     "       3     0.00    0.00    0.00     N/A\n") != std::string::npos);
  CHECK(run.out.find("# Out of bounds values : 1 FAILED\n") != std::string::npos);
}

TEST_CASE(
    "the form of nccl-tests: without an in-place form its columns repeat the others, unchecked",
    "[cmd]") {
  BenchSpec spec;
  spec.collective = kernels::Collective::all_to_all;
  spec.in_place = InPlace::both;
  BenchRow r = row(16, 12.3, 0.01);
  r.in_place = {};
  const Captured run = nccl_tests({}, {r}, header_of(2), spec);
  CHECK(run.out.find("# note: alltoall has no in-place form here, its in-place columns repeat the "
                     "others\n") != std::string::npos);
  CHECK(run.out.find("    12.30    0.01    0.01       0    12.30    0.01    0.01     N/A\n") !=
        std::string::npos);
}

TEST_CASE("the form of nccl-tests: a run that broke off has rows and no conclusion", "[cmd]") {
  JobOutcome lost;
  lost.exit_code = 5;
  lost.error = Error(ErrorCode::lost, "rank 1 was killed by signal 9");
  const Captured run = nccl_tests(lost, {row(8, 5, 0.01)});
  CHECK(run.code == 5);
  CHECK(run.out.find("     float     sum ") != std::string::npos);
  CHECK(run.out.find("# error: rank 1 was killed by signal 9\n") != std::string::npos);
  CHECK(run.out.find("Avg bus bandwidth") == std::string::npos);
}

}  // namespace report_nccl_tests_tests
