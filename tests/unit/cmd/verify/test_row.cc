// The expected time of a row: of its steps, and in a block that is timed what the host adds.
#include "cmd/verify/row.h"
#include "tests/catch.h"

namespace verify_row_tests {

using namespace collctl;
using namespace collctl::cmd;

namespace {

runtime::Plan step(double us, runtime::HostTime host) {
  runtime::PlannedOp op;
  op.expected = {.us = us, .limited_by = "flags", .host = host};
  op.works.emplace_back().count = 1;
  runtime::Plan plan;
  plan.ops.push_back(op);
  return plan;
}

constexpr runtime::HostTime kHost{.launch_us = 4, .block_us = 11};

}  // namespace

TEST_CASE("a row by itself takes what its steps take together", "[bench]") {
  const std::vector<runtime::Plan> steps = {step(3, kHost), step(5, kHost)};
  CHECK(planned_steps(steps).expected.us == 8);
  CHECK(planned_steps(steps).largest == &steps[1].ops[0]);
  CHECK(planned_steps({}).largest == nullptr);
}

TEST_CASE("in a block the host's launches set the pace, and its begin and end count once",
          "[bench]") {
  const std::vector<runtime::Plan> small = {step(3, kHost)}, large = {step(100, kHost)};
  const auto in_block = [](const std::vector<runtime::Plan>& steps, const TimedBlock& block) {
    return planned_steps(steps, block).expected;
  };
  CHECK(in_block(small, {20}).us == Approx(4 + 11.0 / 20));
  CHECK(in_block(small, {20}).limited_by == "launches: the host makes one in 4 us");
  CHECK(in_block(small, {1}).us == 15);
  CHECK(in_block(small, {1}).limited_by == "begin and end of 1 timed together: 11 us");
  // A graph launches by itself.
  CHECK(in_block(small, {20, true}).us == Approx(3 + 11.0 / 20));
  CHECK(in_block(small, {20, true}).limited_by == "flags");
  CHECK(in_block(large, {5}).us == Approx(100 + 11.0 / 5));
  CHECK(in_block(large, {5}).limited_by == "flags");
  const std::vector<runtime::Plan> both = {step(3, kHost), step(100, kHost)};
  CHECK(in_block(both, {5}).us == Approx(4 + 100 + 11.0 / 5));
  // CPU ranks do all of it themselves.
  CHECK(in_block({step(0.3, {})}, {1}).us == 0.3);
  CHECK(in_block({step(0.3, {})}, {1}).limited_by == "flags");
}

}  // namespace verify_row_tests
