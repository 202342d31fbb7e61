#include "cmd/measure/buffers.h"
#include "tests/catch.h"

namespace fits_tests {

using namespace collctl;
using cmd::fits_in_memory;
using cmd::HostMemory;

namespace {
constexpr uint64_t kGiB = 1 << 30;
}

TEST_CASE("buffers are refused before they are made, by the host's memory", "[fits]") {
  const HostMemory host{.ranks = 4, .bytes = 8 * kGiB};
  CHECK(fits_in_memory("allreduce of 1 GiB", 2 * kGiB, host).ok());
  auto refused = fits_in_memory("allreduce of 1 GiB", 3 * kGiB, host);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().code == ErrorCode::unavailable);
  CHECK(refused.error().message ==
        "allreduce of 1 GiB needs 3 GiB of buffers for each of the 4 ranks of this host, which has "
        "8 GiB of memory");
}

TEST_CASE("buffers are refused by the limit of the ranks' control group", "[fits]") {
  HostMemory small{.ranks = 2, .bytes = 64 * kGiB, .group_ranks = 2, .group_bytes = 400 << 20};
  auto refused = fits_in_memory("allreduce of 256 MiB", kGiB / 2, small);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().code == ErrorCode::unavailable);
  CHECK(refused.error().message ==
        "allreduce of 256 MiB needs 512 MiB of buffers for each of the 2 ranks of this host in one "
        "control group (container, job), which may use 400 MiB of memory");
  CHECK(refused.error().hint.starts_with("raise the limit of the container or the job"));
  // A container for each rank has its own limit.
  small.group_ranks = 1;
  CHECK(fits_in_memory("allreduce of 128 MiB", 256 << 20, small).ok());
}

}  // namespace fits_tests
