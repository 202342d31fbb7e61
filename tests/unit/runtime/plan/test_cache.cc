// The plans that a communicator keeps: a plan is found again for the same operation, and never for
// one that differs in anything it was made of.
#include "runtime/plan/cache.h"
#include "tests/unit/runtime/plan/plan_shapes.h"

namespace plan_cache_tests {

using namespace collctl;
using namespace collctl::runtime;
using namespace collctl::runtime::testing;

namespace {

int g_planned = 0;

Result<Plan> count_and_plan(std::span<const Operation> operations, const CommShape& shape,
                            const Choices& choices) {
  ++g_planned;
  return make_plan(operations, shape, choices);
}

// How many plans were made for the second call, after the first.
int planned_again(const std::vector<Operation>& first, const std::vector<Operation>& second) {
  const CommShape shape = shape_of(1, 4);
  PlanCache cache(&count_and_plan);
  REQUIRE(cache.get(first, shape, {}));
  g_planned = 0;
  const auto entry = cache.get(second, shape, {});
  REQUIRE(entry);
  REQUIRE((*entry)->plan.ops.size() == second.size());
  return g_planned;
}

}  // namespace

TEST_CASE("a plan is found again by all that it was made of", "[planner]") {
  const Operation base = {.collective = Collective::all_reduce,
                          .input = g_in.data(),
                          .output = g_out.data(),
                          .count = 100,
                          .chunk_elements = 8};
  CHECK(planned_again({base}, {base}) == 0);
  const auto other = [&](auto&& change) {
    Operation changed = base;
    change(changed);
    return planned_again({base}, {changed}) + planned_again({changed}, {base});
  };
  CHECK(other([](Operation& o) { o.count = 101; }) == 2);
  CHECK(other([](Operation& o) { o.type = DataType::int32; }) == 2);
  CHECK(other([](Operation& o) { o.op = RedOp::max; }) == 2);
  CHECK(other([](Operation& o) { o.chunk_elements = 16; }) == 2);
  CHECK(other([](Operation& o) { o.collective = Collective::reduce_scatter; }) == 2);
  CHECK(planned_again({base}, {base, base}) == 1);
  CHECK(planned_again({base, base}, {base}) == 1);

  const Operation rooted = operation(Collective::broadcast, 100, 0);
  Operation elsewhere = rooted;
  elsewhere.root = 2;
  CHECK(planned_again({rooted}, {rooted}) == 0);
  CHECK(planned_again({rooted}, {elsewhere}) == 1);

  const Operation message{
      .collective = Collective::send_recv, .input = g_in.data(), .count = 4, .peer = 2};
  Operation to_other = message, from_other = message;
  to_other.peer = 3;
  from_other.input = g_in.data() + 64;  // its schedule holds pointers
  CHECK(planned_again({message}, {message}) == 0);
  CHECK(planned_again({message}, {to_other}) == 1);
  CHECK(planned_again({message}, {from_other}) == 1);
}

TEST_CASE("a plan that is found again works on the buffers of its call", "[planner]") {
  const CommShape shape = shape_of(1, 4);
  PlanCache cache(&count_and_plan);
  Operation op = operation(Collective::all_reduce, 100);
  REQUIRE(cache.get({&op, 1}, shape, {}));
  op.input = g_in.data() + 4096;
  op.output = g_out.data() + 8192;
  g_planned = 0;
  const auto entry = cache.get({&op, 1}, shape, {});
  REQUIRE(entry);
  CHECK(g_planned == 0);
  REQUIRE_FALSE((*entry)->plan.ops[0].works.empty());
  for (const kernels::Work& work : (*entry)->plan.ops[0].works) {
    CHECK(work.input == op.input);
    CHECK(work.output == op.output);
  }
  // Checked as any other call.
  op.input = nullptr;
  CHECK_FALSE(cache.get({&op, 1}, shape, {}));
}

TEST_CASE("the plan that is dropped is the one made longest ago", "[planner]") {
  const CommShape shape = shape_of(1, 4);
  PlanCache cache(&count_and_plan);
  const auto planned = [&](uint64_t count) {
    const Operation op = operation(Collective::all_reduce, count);
    g_planned = 0;
    REQUIRE(cache.get({&op, 1}, shape, {}));
    return g_planned;
  };
  for (uint64_t count = 1; count <= 16; ++count) CHECK(planned(count) == 1);
  for (uint64_t count = 1; count <= 16; ++count) CHECK(planned(count) == 0);
  CHECK(planned(17) == 1);
  for (uint64_t count = 2; count <= 17; ++count) CHECK(planned(count) == 0);
  CHECK(planned(1) == 1);
  cache.clear();
  CHECK(planned(17) == 1);
}

}  // namespace plan_cache_tests
