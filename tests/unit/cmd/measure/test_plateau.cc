#include "cmd/measure/plateau.h"
#include "cmd/measure/rows.h"
#include "tests/catch.h"

namespace measure_plateau_tests {
using namespace collctl;
using namespace collctl::cmd;

constexpr uint64_t kMiB = 1 << 20, kGiB = 1 << 30;

TEST_CASE("a row for the line rate is as large as memory and caches ask for") {
  // GPUs of 141, 80, 48, 24 and 4 GB.
  CHECK(plateau_bytes({.gpu_bytes = 280 * kGiB}) == 8 * kGiB);
  CHECK(plateau_bytes({.gpu_bytes = 140 * kGiB}) == 8 * kGiB);
  CHECK(plateau_bytes({.gpu_bytes = 127 * kGiB}) == 4 * kGiB);
  CHECK(plateau_bytes({.gpu_bytes = 79 * kGiB}) == 4 * kGiB);
  CHECK(plateau_bytes({.gpu_bytes = 47 * kGiB}) == 2 * kGiB);
  CHECK(plateau_bytes({.gpu_bytes = 23 * kGiB}) == kGiB);
  CHECK(plateau_bytes({.gpu_bytes = 4 * kGiB}) == 256 * kMiB);
  // Cores: beyond the caches that all ranks share, within a sixteenth of the memory.
  CHECK(plateau_bytes({.memory = {.ranks = 32, .bytes = 512 * kGiB}, .cache_bytes = 512 * kMiB}) ==
        64 * kMiB);
  CHECK(plateau_bytes({.memory = {.ranks = 2, .bytes = 512 * kGiB}, .cache_bytes = 512 * kMiB}) ==
        256 * kMiB);
  CHECK(plateau_bytes({.memory = {.ranks = 2, .bytes = 24 * kGiB}}) == 32 * kMiB);
  CHECK(plateau_bytes({.memory = {.ranks = 4, .bytes = kGiB}}) == 16 * kMiB);
  CHECK(plateau_bytes({.memory = {.ranks = 16, .bytes = 64 * kMiB}}) == kMiB);
  // A control group with less than the host: each rank's own, or shared.
  CHECK(plateau_bytes({.memory = {.ranks = 4, .bytes = 64 * kGiB, .group_bytes = kGiB / 2}}) ==
        32 * kMiB);
  CHECK(plateau_bytes(
            {.memory = {.ranks = 4, .bytes = 64 * kGiB, .group_ranks = 4, .group_bytes = kGiB}}) ==
        16 * kMiB);
  CHECK(plateau_bytes({}) == 32 * kMiB);
}

TEST_CASE("a row for the line rate is only as large as its time allows") {
  CHECK(bytes_in_time(32 * kMiB, {kMiB, 7'000'000}) == 32 * kMiB);
  CHECK(bytes_in_time(32 * kMiB, {kMiB, 50'000'000}) == 4 * kMiB);
  CHECK(bytes_in_time(32 * kMiB, {kMiB, 200'000'000}) == 0);
  CHECK(bytes_in_time(32 * kMiB, {}) == 32 * kMiB);
}

TEST_CASE("the row for the line rate comes after all others, where it is larger") {
  BenchSpec spec;
  spec.max_bytes = kMiB;
  spec.step_factor = 32;
  const auto with = MeasuredRows::make(spec, 4, nullptr, 32 * kMiB);
  REQUIRE(with.ok());
  CHECK(with->ends_in_plateau());
  CHECK(with->sizes() == std::vector<uint64_t>{8, 256, 8192, 262144, 32 * kMiB});
  CHECK(with->total() == 5);
  const auto without = MeasuredRows::make(spec, 4, nullptr, 1024);
  REQUIRE(without.ok());
  CHECK_FALSE(without->ends_in_plateau());
  CHECK(without->sizes().back() == 262144);
  spec.collective = kernels::Collective::barrier;
  CHECK_FALSE(MeasuredRows::make(spec, 4, nullptr, kMiB)->ends_in_plateau());
}

}  // namespace measure_plateau_tests
