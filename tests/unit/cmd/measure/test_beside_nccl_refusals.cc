// Calls that the GPUs' driver or the installed NCCL refuse once, in a measurement beside NCCL.
#include "tests/fake_drivers/nccl_control.h"
#include "tests/unit/cmd/measure/gpu_bench.h"
#include "tests/unit/runtime/driver_refusals.h"

namespace measure_beside_nccl_refusals_tests {

using namespace collctl;
using namespace collctl::cmd;
using namespace collctl::cmd::testing;
using namespace collctl::runtime::testing;

namespace {

BenchSpec spec_beside() {
  BenchSpec spec = gpu_bench(kernels::Collective::all_reduce);
  spec.min_bytes = spec.max_bytes = 4096;
  spec.step_bytes = 0;
  spec.in_place = InPlace::out_of_place;
  spec.iterations = 2;
  spec.op_timeout_s = 120;
  spec.versus = {"default", "registered", "symmetric"};
  return spec;
}

std::vector<Ended> ends(const BenchSpec& spec) {
  const BenchOutcome outcome = run_gpu_bench(spec, 2);
  std::vector<Ended> all(2);
  for (size_t i = 0; i < outcome.errors.size(); ++i) all[i].status = Status(outcome.errors[i]);
  for (Ended& rank : all) rank.begun = !outcome.sink.rows.empty();
  if (wrong_timings(outcome) != 0)
    all[0].status = Error(ErrorCode::bad_data, "wrong data was reported");
  return all;
}

Refusable cuda_beside() {
  Refusable driver = cuda_driver(2);
  driver.set_up = [] {
    set_up_gpus(2);
    fake_nccl::set_up({});
  };
  // The call of the driver may be one of NCCL's.
  driver.words.push_back("NCCL failed, not collctl");
  return driver;
}

Refusable nccl_library() {
  Refusable library = cuda_beside();
  library.calls = fake_nccl::calls;
  library.refuse = [](const std::string& function, int after) { fake_nccl::fail(function, after); };
  library.left = [] {
    const fake_nccl::Counts left = fake_nccl::counts();
    return left.communicators + left.windows + left.registrations == 0 &&
                   fake_cuda::counts() == fake_cuda::Counts{}
               ? ""
               : format("{} communicators, {} windows, {} registrations, {}", left.communicators,
                        left.windows, left.registrations, fake_cuda::counts().text());
  };
  library.words = {"NCCL"};
  library.looks = {"ncclCommGetAsyncError"};
  return library;
}

void refuse_all(int positions, test::Part* part) {
  BenchSpec spec = spec_beside();
  for (const int graph : {0, 2}) {
    spec.cuda_graph = graph;
    const auto run = [&] { return ends(spec); };
    refuse_each(format("NCCL, graph {}", graph), nccl_library(), positions, run, part);
    refuse_each(format("CUDA, graph {}", graph), cuda_beside(), positions, run, part);
  }
}

}  // namespace

TEST_CASE("beside NCCL: what a library refuses once ends all ranks in order or is gone round",
          "[gpu][faults]") {
  test::Part part(test::Sweep::refused_calls);
  refuse_all(1, &part);
}

TEST_CASE("beside NCCL, the same at every call", "[.][refusals]") {
  refuse_all(1 << 20, nullptr);
}

}  // namespace measure_beside_nccl_refusals_tests
