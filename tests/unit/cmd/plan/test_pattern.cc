// A plan for patterns of sends and receives, against the messages that they are made of.
#include "cmd/plan/pattern.h"

#include <cmath>

#include "cmd/verify/buffer_shape.h"
#include "runtime/plan/comm_shape.h"
#include "tests/catch.h"

namespace plan_pattern_tests {

using namespace collctl;
using namespace collctl::cmd;
using kernels::Collective;
using runtime::CommShape;

namespace {

CommShape shape_of(int nodes, int ranks_per_node) {
  base::Processors machine;
  machine.packages = 1;
  machine.cores = ranks_per_node;
  machine.nodes.resize(1);
  for (int core = 0; core < ranks_per_node; ++core) {
    machine.online.push_back(
        {.id = core, .package = 0, .core = core, .numa = 0, .cache_domain = 0});
    machine.nodes[0].processors.push_back(core);
  }
  const auto settings = runtime::read_settings({});
  REQUIRE(settings);
  return runtime::hypothetical_shape(machine, nodes, ranks_per_node, *settings);
}

// The planned time of one exchange of so many floats with a neighbour.
double exchange_us(const CommShape& shape, uint64_t count) {
  char room[2];
  const runtime::Operation send{
      .collective = Collective::send_recv, .input = &room[0], .count = count, .peer = 1};
  const runtime::Operation recv{
      .collective = Collective::send_recv, .output = &room[1], .count = count, .peer = 1};
  const runtime::Operation both[] = {send, recv};
  const auto plan = make_plan(both, shape, {});
  REQUIRE(plan);
  return plan->ops.at(0).expected.us;
}

}  // namespace

TEST_CASE("a hypercube is planned as its steps, one after the other", "[plan]") {
  const CommShape shape = shape_of(4, 2);
  for (const uint64_t count : {1u, 1000u, 300000u}) {
    const auto chosen = choose_pattern(kHypercube, count, shape, {});
    REQUIRE(chosen);
    CHECK(chosen->steps == 3);
    CHECK(chosen->choice.algorithm == kernels::AlgorithmId::pairwise);
    // Blocks of 1, 2 and 4.
    const double sum =
        exchange_us(shape, count) + exchange_us(shape, 2 * count) + exchange_us(shape, 4 * count);
    CHECK(std::abs(chosen->choice.expected.us / sum - 1) < 1e-9);
    CHECK(chosen->choice.why.find("3 steps, each after the one before") != std::string::npos);
  }
  const auto six = choose_pattern(kHypercube, 1000, shape_of(3, 2), {});
  REQUIRE_FALSE(six);
  CHECK(six.error().code == ErrorCode::usage);
  CHECK(six.error().message.find("hypercube of 6 ranks") != std::string::npos);
}

TEST_CASE("an alltoallv is planned as an alltoall of what the busiest rank moves", "[plan]") {
  for (const int ranks : {2, 6, 16}) {
    const CommShape shape = shape_of(2, ranks / 2);
    const UnevenTotals totals = uneven_totals(ranks);
    // The busiest rank is one that has so many blocks with others, and none before it has.
    for (int rank = 0; rank <= totals.busiest_rank; ++rank) {
      const auto share = uneven_share(rank, ranks);
      uint64_t to = 0, from = 0;
      for (int peer = 0; peer < ranks; ++peer) {
        to += peer == rank ? 0 : share->to[size_t(peer)];
        from += peer == rank ? 0 : share->from[size_t(peer)];
      }
      CHECK((std::max(to, from) == totals.busiest) == (rank == totals.busiest_rank));
    }
    const uint64_t count = 1000 * uint64_t(ranks - 1);  // so that its share is whole
    const auto chosen = choose_pattern(kAllToAllV, count, shape, {});
    REQUIRE(chosen);
    CHECK(chosen->steps == 1);
    runtime::Choices one;
    one.protocols = 1u << int(chosen->choice.protocol);
    const auto even = choose_collective(
        {.collective = Collective::all_to_all, .count = 1000 * totals.busiest}, shape, one);
    REQUIRE(even);
    CHECK(chosen->choice.expected.us == even->expected.us);
    CHECK(chosen->choice.expected.limited_by == even->expected.limited_by);
  }
  CommShape large = shape_of(2, 1);
  large.nranks = 8193;
  const auto refused = choose_pattern(kAllToAllV, 1, large, {});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message == "alltoallv is planned for up to 8192 ranks, not 8193");
}

TEST_CASE("a pattern's messages go by the protocols and pairs that are allowed", "[plan]") {
  const CommShape shape = shape_of(2, 4);
  const auto choices = runtime::parse_choices("", "simple", 0);
  REQUIRE(choices);
  for (const BenchOp& op : {kHypercube, kAllToAllV}) {
    CHECK(is_pattern(op));
    const auto chosen = choose_pattern(op, 4, shape, *choices);
    REQUIRE(chosen);
    CHECK(chosen->choice.protocol == kernels::Protocol::simple);
    const auto ring = runtime::parse_choices("ring", "", 0);
    REQUIRE(ring);
    const auto refused = choose_pattern(op, 4, shape, *ring);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().message.find("it needs pairwise") != std::string::npos);
  }
  CHECK_FALSE(is_pattern(Collective::all_to_all));
  CHECK_FALSE(is_pattern(Collective::send_recv));
}

}  // namespace plan_pattern_tests
