// How many ranks a host gets and what they are bound to, before any is started.
#include "cmd/job/config.h"
#include "launcher/hosts/placement.h"
#include "tests/catch.h"

namespace job_local_plan_tests {

using namespace collctl;
using namespace collctl::cmd;

TEST_CASE("ranks are bound by what they compute on", "[cmd]") {
  LaunchOptions options;
  options.ranks = 2;
  const auto free = plan_local(options);
  REQUIRE(free.ok());
  CHECK(free->cores == launcher::place_here(2, launcher::BindTo::own));
  CHECK_FALSE(free->must_bind);  // a default
  auto unknown = plan_local(options, true);
  REQUIRE(unknown.ok());
  CHECK(unknown->cores == std::vector<std::vector<int>>{{}, {}});
  // CPU ranks have no GPU to be near to; of a program nobody knows.
  options.bind_to = "device";
  const auto refused = plan_local(options);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().code == ErrorCode::unavailable);
  CHECK(refused.error().message == "--bind-to device: these are CPU ranks, they have no GPU");
  CHECK(plan_local(options, true).ok());
  // One rank a GPU; more of them than GPUs only when they may share.
  options.gpus = 3;
  options.ranks = 0;
  const auto each = plan_local(options);
  REQUIRE(each.ok());
  CHECK(each->ranks == 3);
  CHECK(each->cores.size() == 3);
  options.ranks = 4;
  const auto many = plan_local(options);
  REQUIRE_FALSE(many.ok());
  CHECK(many.error().code == ErrorCode::unavailable);
  options.oversubscribe = true;
  CHECK(plan_local(options).ok());
}

}  // namespace job_local_plan_tests
