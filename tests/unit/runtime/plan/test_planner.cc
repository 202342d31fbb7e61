// The planner is pure: choices, cuts, errors, and schedules in which both ends of a message agree.
#include "runtime/plan/candidates.h"
#include "tests/unit/runtime/plan/plan_shapes.h"

namespace plan_planner_tests {

using namespace collctl;
using namespace collctl::runtime;
using kernels::AlgorithmId;
using kernels::PairStep;
using kernels::Protocol;
using namespace collctl::runtime::testing;

TEST_CASE("lists of algorithms and protocols", "[planner]") {
  CHECK(choices("", "").allows(AlgorithmId::tree));
  CHECK_FALSE(choices("Ring", "").allows(AlgorithmId::tree));
  CHECK(choices("ring,TREE_SPLIT", "").allows(AlgorithmId::tree_split));
  CHECK_FALSE(choices("^tree", "").allows(AlgorithmId::tree));
  CHECK(choices("^tree", "").allows(AlgorithmId::ring));
  CHECK(choices("all", "all").allows(Protocol::ll));
  for (const char* bad : {"rings", "ring,,tree", "ring,", "^all", "^", ","}) {
    INFO(bad);
    auto parsed = parse_choices(bad, "", 0);
    REQUIRE_FALSE(parsed);
    CHECK(parsed.error().code == ErrorCode::usage);
  }
  CHECK_FALSE(parse_choices("", "simpel", 0));
  CHECK_FALSE(parse_choices("", "", 65));
  CHECK_FALSE(parse_choices("", "", -1));
}

TEST_CASE("parts cover the elements once", "[planner]") {
  for (uint64_t count : {0ul, 1ul, 15ul, 16ul, 17ul, 1000ul, 65536ul, (1ul << 62) + 5})
    for (int channels : {1, 2, 3, 7, 64}) {
      uint64_t next = 0;
      const auto parts = detail::cut_parts(count, channels);
      REQUIRE(parts.size() >= 1);
      REQUIRE(parts.size() <= size_t(channels));
      for (const auto& part : parts) {
        REQUIRE(part.offset == next);
        REQUIRE(part.offset % 16 == 0);
        next += part.count;
      }
      REQUIRE(next == count);
    }
}

TEST_CASE("every collective is planned, chunks are multiples of 16 bytes", "[planner]") {
  for (int n : {1, 2, 3, 4, 7, 8, 16, 64})
    for (int channels : {1, 4})
      for (int c = 0; c < kernels::kCollectiveCount; ++c) {
        if (Collective(c) == Collective::send_recv) continue;
        const CommShape shape = shape_of(n - 1, n, channels);
        for (uint64_t count : {0ul, 1ul, 1000ul, 200000ul}) {
          const Operation op = operation(Collective(c), count);
          auto plan = make_plan({&op, 1}, shape, {});
          REQUIRE(plan);
          REQUIRE(plan->ops.size() == 1);
          const PlannedOp& planned = plan->ops[0];
          REQUIRE(planned.channels == int(planned.works.size()));
          CHECK_FALSE(planned.why.empty());
          for (const auto& w : planned.works) {
            CHECK(w.chunk_count * 4 % 16 == 0);
            CHECK(w.chunk_count > 0);
            CHECK(w.nranks == n);
            if (planned.algorithm != AlgorithmId::pairwise)
              CHECK(w.ring.order[w.ring.index] == n - 1);
          }
        }
      }
}

TEST_CASE("all ranks make the same choice", "[planner]") {
  for (int n : {2, 5, 8})
    for (uint64_t count : {1ul, 5000ul, 1ul << 20})
      for (Collective c : {Collective::all_reduce, Collective::all_gather, Collective::broadcast}) {
        std::vector<std::tuple<AlgorithmId, Protocol, int, uint64_t>> seen;
        for (int r = 0; r < n; ++r) {
          const Operation op = operation(c, count / uint64_t(n) + 1, n - 1);
          auto plan = make_plan({&op, 1}, shape_of(r, n, 2), {});
          REQUIRE(plan);
          const auto& p = plan->ops[0];
          seen.emplace_back(p.algorithm, p.protocol, p.channels, p.works[0].chunk_count);
        }
        for (const auto& s : seen) CHECK(s == seen[0]);
      }
}

TEST_CASE("what is forced is taken, what cannot serve is an error that says why", "[planner]") {
  const CommShape shape = shape_of(0, 4, 4);
  const Operation reduce = operation(Collective::all_reduce, 1 << 20);
  auto plan = make_plan({&reduce, 1}, shape, choices("tree", "ll", 3));
  REQUIRE(plan);
  CHECK(plan->ops[0].algorithm == AlgorithmId::tree);
  CHECK(plan->ops[0].protocol == Protocol::ll);
  CHECK(plan->ops[0].channels == 3);

  const Error e = plan_error(operation(Collective::all_to_all, 8), shape, choices("ring", ""));
  CHECK(e.code == ErrorCode::usage);
  CHECK(e.message.find("ring supports only") != std::string::npos);
  const Error p = plan_error(reduce, shape, choices("", "ll128"));
  CHECK(p.code == ErrorCode::usage);
  CHECK(p.message.find("ll128 is not available for CPU ranks") != std::string::npos);
  const Error one = plan_error(reduce, shape, choices("one-shot", ""));
  CHECK(one.code == ErrorCode::usage);
  CHECK(one.message.find("one-shot needs memory that all ranks map, and there is none: "
                         "SHM_DISABLE is set") != std::string::npos);
  const Error ll = plan_error(reduce, with_windows(shape), choices("two-shot", "ll"));
  CHECK(ll.message.find("two-shot supports the protocol simple only") != std::string::npos);
}

TEST_CASE("halving is for what its sums have room for", "[planner]") {
  const CommShape shape = shape_of(0, 9);
  // Eight blocks of sums: 2 MiB each, and a float more.
  const Operation most = operation(Collective::reduce_scatter, (2 << 20) / 4);
  auto plan = make_plan({&most, 1}, shape, choices("halving", ""));
  REQUIRE(plan);
  CHECK(plan->ops[0].works.size() == 1);
  CHECK(kernels::scratch_bytes(plan->ops[0].works[0]) == 16 << 20);
  const Operation more = operation(Collective::reduce_scatter, most.count + 1);
  const Error refused = plan_error(more, shape, choices("halving", ""));
  CHECK(refused.code == ErrorCode::usage);
  CHECK(refused.message.find("halving is for small operations: its sums of 8 blocks of 2097156 "
                             "bytes exceed 16 MiB") != std::string::npos);
  CHECK(make_plan({&more, 1}, shape, {}));
  // Two ranks have none to keep.
  CHECK(make_plan({&more, 1}, shape_of(0, 2), choices("halving", "")));
}

TEST_CASE("wrong arguments", "[planner]") {
  const CommShape shape = shape_of(1, 4);
  Operation op = operation(Collective::all_reduce, 8);
  op.input = nullptr;
  CHECK(plan_error(op, shape).message.find("input buffer of rank 1 is null") != std::string::npos);
  op = operation(Collective::all_reduce, 8);
  op.output = nullptr;
  CHECK(plan_error(op, shape).code == ErrorCode::usage);
  CHECK(plan_error(operation(Collective::broadcast, 8, 4), shape).code == ErrorCode::usage);
  CHECK(plan_error(operation(Collective::gather, 8, -1), shape).code == ErrorCode::usage);
  CHECK(plan_error(operation(Collective::all_gather, ~0ull / 8), shape).code == ErrorCode::usage);

  op = operation(Collective::all_reduce, 100);
  op.output = g_in.data() + 8;
  CHECK(plan_error(op, shape).message.find("overlap") != std::string::npos);
  op.output = g_in.data();
  CHECK(make_plan({&op, 1}, shape, {}));
  op = operation(Collective::all_gather, 100);
  op.input = g_out.data() + 100 * 4;  // rank 1's block
  CHECK(make_plan({&op, 1}, shape, {}));
  op.input = g_out.data();
  CHECK(plan_error(op, shape).code == ErrorCode::usage);
  op = operation(Collective::reduce_scatter, 100);
  op.output = g_in.data() + 100 * 4;
  CHECK(make_plan({&op, 1}, shape, {}));
  op = operation(Collective::all_to_all, 100);
  op.output = g_in.data();
  CHECK(plan_error(op, shape).message.find("in place") != std::string::npos);

  // Buffers that a rank does not use may be null.
  op = operation(Collective::gather, 8, 0);
  op.output = nullptr;
  CHECK(make_plan({&op, 1}, shape, {}));
  Operation none = operation(Collective::all_reduce, 0);
  none.input = none.output = nullptr;
  CHECK(make_plan({&none, 1}, shape, {}));

  Operation message{
      .collective = Collective::send_recv, .input = g_in.data(), .count = 4, .peer = 4};
  CHECK(plan_error(message, shape).code == ErrorCode::usage);
  message.peer = 0;
  message.output = g_out.data();
  CHECK(plan_error(message, shape).message.find("exactly one") != std::string::npos);
  message.output = nullptr;
  message.peer = 1;
  CHECK(plan_error(message, shape).message.find("itself") != std::string::npos);

  // A message of a rank to itself has the size of what it receives: neither longer nor shorter.
  const Operation send{
      .collective = Collective::send_recv, .input = g_in.data(), .count = 4, .peer = 1};
  for (const uint64_t count : {3, 4, 5}) {
    const Operation both[] = {
        send,
        {.collective = Collective::send_recv, .output = g_out.data(), .count = count, .peer = 1}};
    const auto plan = make_plan(both, shape, {});
    CHECK(plan.ok() == (count == 4));
    if (!plan)
      CHECK(plan.error().message.find("16 bytes matches a receive of") != std::string::npos);
  }
}

TEST_CASE("exchanges match: all-to-all, gather, scatter", "[planner]") {
  for (int n : {1, 2, 3, 4, 7, 16, 33})
    for (Collective c : {Collective::all_to_all, Collective::gather, Collective::scatter})
      for (int root : {0, n / 2, n - 1}) {
        std::vector<std::vector<PairStep>> all;
        for (int r = 0; r < n; ++r) {
          const auto steps = detail::exchange_rounds(operation(c, 10, root), shape_of(r, n), 0, 10);
          size_t blocks = 0;
          for (const auto& s : steps) blocks += s.recv_peer >= 0;
          const size_t expected = c == Collective::all_to_all ? size_t(n)
                                  : c == Collective::gather   ? (r == root ? size_t(n) : 0)
                                                              : 1;
          CHECK(blocks == expected);
          all.push_back(steps);
        }
        run_schedules(all);
      }
}

TEST_CASE("grouped sends and receives in any order match, several to one peer too", "[planner]") {
  uint32_t seed = 12345;
  const auto random = [&](uint32_t below) {
    return (seed = seed * 1664525 + 1013904223) / 7 % below;
  };
  for (int trial = 0; trial < 50; ++trial) {
    const int n = int(1 + random(9));
    std::vector<std::vector<Operation>> ops;
    ops.resize(size_t(n));
    const uint32_t messages = random(40);
    for (uint32_t m = 0; m < messages; ++m) {
      const int from = int(random(uint32_t(n))), to = int(random(uint32_t(n)));
      const uint64_t count = random(3) == 0 ? 0 : random(4) == 0 ? 100000 : random(500);
      ops[size_t(from)].push_back({.collective = Collective::send_recv,
                                   .input = g_in.data(),
                                   .output = nullptr,
                                   .count = count,
                                   .peer = to});
      ops[size_t(to)].push_back({.collective = Collective::send_recv,
                                 .input = nullptr,
                                 .output = g_out.data(),
                                 .count = count,
                                 .peer = from});
    }
    for (Protocol protocol : {Protocol::ll, Protocol::simple})
      for (int channel = 0; channel < 2; ++channel) {
        std::vector<std::vector<PairStep>> all;
        for (int r = 0; r < n; ++r) {
          auto plan = make_plan(ops[size_t(r)], shape_of(r, n, 2), choices("", "", 2));
          REQUIRE(plan);
          std::vector<PairStep> steps;
          for (const auto& op : plan->ops)
            for (const auto& w : op.works)
              if (op.protocol == protocol && w.channel == channel)
                steps.insert(steps.end(), w.pairs, w.pairs + w.pair_count);
          all.push_back(steps);
        }
        run_schedules(all);
      }
  }
}

TEST_CASE("messages inside a host: lines up to 1 KiB, and marked to be lent", "[planner]") {
  const auto planned = [](const CommShape& shape, uint64_t bytes) {
    const Operation message{.collective = Collective::send_recv,
                            .input = g_in.data(),
                            .count = bytes,
                            .type = DataType::uint8,
                            .peer = 1};
    auto plan = make_plan({&message, 1}, shape, {});
    REQUIRE(plan);
    return std::pair(plan->ops[0].protocol, int(plan->ops[0].works[0].mark));
  };
  CommShape shape = shape_of(0, 2);
  CHECK(planned(shape, 1 << 20) == std::pair(Protocol::simple, 0));
  shape.lends = true;
  CHECK(planned(shape, 1024).first == Protocol::ll);
  CHECK(planned(shape, 1025) == std::pair(Protocol::simple, 13));
  shape.path.used = true;
  CHECK(planned(shape, 8192).first == Protocol::ll);
  CHECK(planned(shape, 8193).first == Protocol::simple);
  shape.gpu = true;
  CHECK(detail::lends_from(shape) == 0);
}

TEST_CASE("large blocks are lent, where that is faster than a window", "[planner]") {
  const auto algorithm = [](CommShape shape, Collective c, uint64_t count, double crowd = 1) {
    shape.ranks_per_core = crowd;
    const auto chosen = choose_collective(operation(c, count), shape, {});
    REQUIRE(chosen);
    return chosen->algorithm;
  };
  CommShape copied = with_windows(shape_of(0, 4)), lent = copied;
  lent.lends = true;
  for (const Collective c : {Collective::all_to_all, Collective::gather, Collective::scatter}) {
    CAPTURE(int(c));
    CHECK(algorithm(lent, c, 64) == AlgorithmId::one_shot);
    CHECK(algorithm(copied, c, 32 << 10) == AlgorithmId::one_shot);
    CHECK(algorithm(lent, c, 32 << 10) == AlgorithmId::pairwise);
    // A root that gathers copies alone, where in a window all do.
    CHECK(algorithm(lent, c, 64 << 10, 2) ==
          (c == Collective::gather ? AlgorithmId::one_shot : AlgorithmId::pairwise));
  }
  const Expected time =
      choose_collective(operation(Collective::all_to_all, 64 << 10), lent, {})->expected;
  CHECK(time.limited_by == "copies out of the sender's memory");
}

}  // namespace plan_planner_tests
