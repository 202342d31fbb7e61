// Benchmarks on GPU ranks of the fake driver, for tests: works run on host threads.
#pragma once
#include "tests/unit/cmd/measure/bench_ranks.h"
#include "tests/unit/runtime/gpu_ranks.h"

namespace collctl::cmd::testing {

inline BenchSpec gpu_bench(const BenchOp& collective) {
  BenchSpec spec = small_bench(collective);
  spec.device_request = DeviceRequest::cuda;
  spec.launcher = &runtime::testing::host_launcher();
  return spec;
}

inline bool nothing_held() {
  INFO(fake_cuda::counts().text());
  CHECK(fake_cuda::counts() == fake_cuda::Counts{});
  return fake_cuda::counts() == fake_cuda::Counts{};
}

}  // namespace collctl::cmd::testing
