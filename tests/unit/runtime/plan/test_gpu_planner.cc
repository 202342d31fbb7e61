// Plans of GPU ranks: all ranks have the same, their works are proved by the recorder, and what is
// chosen and refused follows from the shape. The windows' kernels stand in as a rule of the test.
#include <set>

#include "kernels/algo/algorithms.h"
#include "kernels/record/interpret.h"
#include "runtime/plan/planner.h"
#include "tests/how_much.h"
#include "tests/unit/runtime/gpu_job.h"

namespace plan_gpu_planner_tests {

using namespace collctl;
using namespace collctl::runtime;
using kernels::AlgorithmId;
using kernels::Proof;
using kernels::Protocol;

namespace {

// Made-up addresses, far enough apart; nobody follows them.
const void* const kInput = reinterpret_cast<const void*>(uintptr_t{1} << 40);
void* const kOutput = reinterpret_cast<void*>(uintptr_t{2} << 40);

constexpr Collective kCollectives[] = {
    Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter,
    Collective::broadcast,  Collective::reduce,     Collective::gather,
    Collective::scatter,    Collective::all_to_all, Collective::barrier};

Operation operation(Collective c, uint64_t count, DataType type = DataType::float32, int root = 0) {
  Operation op;
  op.collective = c;
  op.input = kInput;
  op.output = kOutput;
  op.count = count;
  op.type = type;
  op.root = root;
  return op;
}

Choices choices(const std::string& algo, const std::string& proto, int channels = 0) {
  auto parsed = parse_choices(algo, proto, channels);
  REQUIRE(parsed);
  return *parsed;
}

// Windows serve float32 sums of all-reduce up to 1 GiB, by LL up to 1 MiB, by LL128 up to 16 MiB.
bool serves_for_test(Collective c, AlgorithmId algorithm, Protocol protocol, DataType type,
                     RedOp op, int nranks, uint64_t bytes) {
  return c == Collective::all_reduce && type == DataType::float32 && op == RedOp::sum &&
         nranks > 1 && (algorithm == AlgorithmId::one_shot || algorithm == AlgorithmId::two_shot) &&
         bytes <= (protocol == Protocol::ll      ? 1u << 20
                   : protocol == Protocol::ll128 ? 1u << 24
                                                 : 1u << 30);
}

// As the communicator completes it when all went well.
std::vector<CommShape> complete(std::vector<CommShape> shapes) {
  for (CommShape& s : shapes) {
    s.gpu_window = s.all_on_one_host;
    s.no_window = s.gpu_window ? "" : "the ranks are on several hosts";
    s.window_serves = serves_for_test;
    s.ll128_passed = s.slot_bytes[int(Protocol::ll128)] != 0;
  }
  return shapes;
}

std::vector<Plan> plans_of(const std::vector<CommShape>& shapes, const Operation& op,
                           const Choices& allowed) {
  std::vector<Plan> plans;
  for (const CommShape& shape : shapes) {
    auto plan = make_plan({&op, 1}, shape, allowed);
    if (!plan) {
      REQUIRE(plans.empty());  // all ranks refuse alike
      REQUIRE(plan.error().code == ErrorCode::usage);
      if (shape.rank == 0) continue;
    }
    if (plan) plans.push_back(std::move(*plan));
  }
  REQUIRE((plans.empty() || plans.size() == shapes.size()));
  return plans;
}

// Checks what all ranks must have alike, and what each has of its ring.
void check_alike(const std::vector<CommShape>& shapes, const std::vector<Plan>& plans) {
  const PlannedOp& first = plans[0].ops.at(0);
  for (size_t rank = 0; rank < plans.size(); ++rank) {
    const PlannedOp& op = plans[rank].ops.at(0);
    REQUIRE(op.algorithm == first.algorithm);
    REQUIRE(op.protocol == first.protocol);
    REQUIRE(op.threads == first.threads);
    REQUIRE(op.expected_us == first.expected_us);
    REQUIRE(op.why == first.why);
    REQUIRE(op.works.size() == first.works.size());
    for (size_t c = 0; c < op.works.size(); ++c) {
      const kernels::Work& w = op.works[c];
      REQUIRE(w.part_offset == first.works[c].part_offset);
      REQUIRE(w.part_count == first.works[c].part_count);
      REQUIRE(w.chunk_count == first.works[c].chunk_count);
      REQUIRE(w.channel == c);
      const auto& ring = shapes[rank].channels[c % shapes[rank].channels.size()].ring;
      const auto n = ring.size();
      REQUIRE(ring[size_t(w.ring.index)] == int(rank));
      REQUIRE(w.ring.next == ring[(size_t(w.ring.index) + 1) % n]);
      REQUIRE(w.ring.prev == ring[(size_t(w.ring.index) + n - 1) % n]);
    }
  }
}

// Every element is moved or added exactly once, and nobody waits for ever.
void check_proof(const std::vector<CommShape>& shapes, const std::vector<Plan>& plans) {
  std::vector<kernels::Schedule> schedules;
  for (const Plan& plan : plans)
    for (const kernels::Work& w : plan.ops[0].works) {
      auto schedule = kernels::record(w);
      REQUIRE(schedule);
      schedules.push_back(std::move(*schedule));
    }
  const PlannedOp& op = plans[0].ops[0];
  const Proof proof =
      kernels::interpret(schedules, {.slot_count = shapes[0].slot_count,
                                     .slot_data_bytes = slot_data_bytes(shapes[0], op.protocol)});
  INFO(name_of(op.collective) << " by " << name_of(op.algorithm) << "/" << name_of(op.protocol)
                              << " on " << shapes.size() << " GPUs: " << proof.what);
  REQUIRE(proof.outcome == Proof::Outcome::proved);
}

// Checks the number of threads against the bounds of kernels/cuda/launch.h.
void check_threads(const PlannedOp& op) {
  if (op.by_window_kernel) return;
  REQUIRE(op.threads % 32 == 0);
  REQUIRE(op.threads >= 96);
  REQUIRE(op.threads <= (op.protocol == Protocol::simple ? 608 : 640));
}

// The parts lie side by side and are the whole, without windows' kernels as with them.
void check_cover(const Plan& plan, uint64_t count) {
  uint64_t at = 0;
  for (const kernels::Work& w : plan.ops[0].works) {
    REQUIRE(w.count == count);
    REQUIRE(w.part_offset == at);
    at += w.part_count;
  }
  REQUIRE(at == count);
}

}  // namespace

TEST_CASE("plans of GPU ranks are alike on all ranks and proved", "[gpu][planner]") {
  std::set<std::string> seen;
  int proved = 0;
  for (const int n : {1, 2, 3, 4, 8, 16}) {
    if (!test::nightly() && (n == 4 || n == 16)) continue;
    const auto shapes = complete(gpu_job(n).shapes());
    for (const auto& row : kernels::algorithms())
      for (const char* proto : {"simple", "ll", "ll128"})
        for (const Collective c : kCollectives)
          for (const uint64_t count : {1, 333, 5000}) {
            const DataType type = count == 333 ? DataType::int8 : DataType::float32;
            const Operation op = operation(c, c == Collective::barrier ? 1 : count, type, n / 2);
            const auto plans = plans_of(shapes, op, choices(row.name, proto));
            if (plans.empty()) continue;
            check_alike(shapes, plans);
            check_cover(plans[0], op.count);
            check_threads(plans[0].ops[0]);
            seen.insert(std::string(row.name) + "/" + proto);
            if (plans[0].ops[0].by_window_kernel) continue;
            check_proof(shapes, plans);
            ++proved;
          }
  }
  CHECK(proved > (test::nightly() ? 500 : 250));
  for (const char* way : {"ring/simple",       "ring/ll",
                          "tree/simple",       "tree/ll",
                          "tree-split/simple", "pairwise/simple",
                          "pairwise/ll",       "doubling/ll",
                          "rooted-tree/ll",    "rooted-tree/simple",
                          "bruck/ll",          "bruck/simple",
                          "halving/ll",        "halving/simple",
                          "ring/ll128",        "tree/ll128",
                          "one-shot/ll",       "one-shot/simple",
                          "two-shot/ll",       "two-shot/simple",
                          "two-shot/ll128"})
    CHECK(seen.count(way) == 1);
}

TEST_CASE("plans of GPU ranks of many channels and chunks are proved", "[gpu][planner]") {
  for (const int n : {2, 4, 8}) {
    GpuPlanJob job = gpu_job(n);
    job.settings.choices = choices("", "", 5);
    job.settings.slot_count = 4;
    const auto shapes = complete(job.shapes());
    for (const char* algo :
         {"ring", "tree", "tree-split", "pairwise", "doubling", "rooted-tree", "bruck", "halving"})
      for (const Collective c : kCollectives) {
        const Operation op = operation(c, c == Collective::barrier ? 1 : 20000, DataType::int32, 1);
        const auto plans = plans_of(shapes, op, choices(algo, "simple", 5));
        if (plans.empty()) continue;
        REQUIRE(plans[0].ops[0].works.size() == (c == Collective::barrier ? 1 : 5));
        check_alike(shapes, plans);
        check_threads(plans[0].ops[0]);
        check_proof(shapes, plans);
      }
  }
}

TEST_CASE("messages of GPU ranks are proved, on more channels than there are rings",
          "[gpu][planner]") {
  for (const int n : {1, 2, 4})
    for (const bool long_lines : {true, false}) {
      auto shapes = complete(gpu_job(n).shapes());
      for (CommShape& s : shapes) s.ll128_passed &= long_lines;
      const size_t rings = shapes[0].channels.size();
      // LL128 has slots on the links of rings: of a rank to the next where every ring has that.
      bool next_in_rings = shapes[0].ll128_passed;
      for (const ChannelShape& channel : shapes[0].channels)
        for (size_t i = 0; i < channel.ring.size(); ++i)
          next_in_rings &= channel.ring[(i + 1) % size_t(n)] == (channel.ring[i] + 1) % n;
      // LL: 2 KiB a channel, up to 32 KiB, and 512 KiB where there is no LL128; LL128: 16 KiB, on
      // as many channels as rings; Simple: 32 KiB; 32 channels at most.
      for (const uint64_t count : {5u, 40'000u, 600'000u}) {
        std::vector<Plan> plans;
        for (const CommShape& shape : shapes) {
          Operation send = operation(Collective::send_recv, count, DataType::uint8);
          send.output = nullptr;
          send.peer = (shape.rank + 1) % n;
          Operation receive = operation(Collective::send_recv, count, DataType::uint8);
          receive.input = nullptr;
          receive.peer = (shape.rank + n - 1) % n;
          const Operation both[] = {send, receive};
          auto plan = make_plan(both, shape, choices("", ""));
          REQUIRE(plan);
          REQUIRE(plan->ops.size() == 1);
          plans.push_back(std::move(*plan));
        }
        const PlannedOp& op = plans[0].ops[0];
        INFO(n << " ranks, " << count << " bytes, " << rings << " rings");
        check_threads(op);
        if (n == 1) {  // to itself
          CHECK(op.by_copies);
          CHECK(op.works.size() == 1);
          continue;
        }
        CHECK_FALSE(op.by_copies);
        const bool small = count == 5;
        const Protocol wanted = small               ? Protocol::ll
                                : next_in_rings     ? Protocol::ll128
                                : count < 512 << 10 ? Protocol::ll
                                                    : Protocol::simple;
        CHECK(op.protocol == wanted);
        size_t channels = 1;
        if (!small && next_in_rings)
          channels = std::min<size_t>(rings, count / (16 << 10));
        else if (!small)
          channels = count == 40'000 ? 19 : 18;
        CHECK(op.works.size() == channels);
        check_proof(shapes, plans);
      }
    }
  // 32 channels for NVLink, though a job of two such GPUs may have fewer rings.
  const auto shapes = complete(gpu_job(2).shapes());
  const Operation op = operation(Collective::all_to_all, 64 << 20);
  auto plan = make_plan({&op, 1}, shapes[0], choices("", ""));
  REQUIRE(plan);
  CHECK(plan->ops[0].works.size() == 32);
}

TEST_CASE("messages that the window has go through it", "[gpu][planner]") {
  const int n = 4;
  auto shapes = complete(gpu_job(n).shapes());
  for (CommShape& s : shapes)
    s.window_serves = [](Collective c, AlgorithmId algorithm, Protocol protocol, DataType, RedOp,
                         int nranks, uint64_t) {
      return c == Collective::send_recv && algorithm == AlgorithmId::pairwise &&
             protocol == Protocol::simple && nranks > 1;
    };
  const auto lines_too = [](Collective, AlgorithmId, Protocol protocol, DataType, RedOp, int,
                            uint64_t bytes) {
    return protocol == Protocol::simple || (protocol == Protocol::ll128 && bytes <= 1 << 20);
  };
  const auto message = [](int peer, uint64_t bytes, bool sends) {
    Operation op = operation(Collective::send_recv, bytes, DataType::uint8);
    (sends ? op.output : const_cast<void*&>(op.input)) = nullptr;
    op.peer = peer;
    return op;
  };
  const auto planned = [&](std::span<const Operation> operations, const Choices& allowed) {
    auto plan = make_plan(operations, shapes[0], allowed);
    REQUIRE(plan);
    return std::move(*plan);
  };
  // Both to 1, the second one behind; one from 3 beside the first; to and from 2 in another round.
  const Operation group[] = {message(1, 2 << 20, true),  message(2, 4 << 20, true),
                             message(1, 3 << 20, true),  message(3, 5 << 20, false),
                             message(2, 6 << 20, false), message(1, 8, true)};
  const Plan plan = planned(group, choices("", ""));
  REQUIRE(plan.ops.size() == 2);
  CHECK_FALSE(plan.ops[0].by_window_kernel);  // 8 bytes
  const PlannedOp& large = plan.ops[1];
  CHECK(large.by_window_kernel);
  CHECK(large.protocol == Protocol::simple);
  CHECK(large.channels == 1);
  CHECK(large.expected_us > 10);
  struct Round {
    int to;
    uint64_t sent;
    int from;
    uint64_t received;
  };
  const Round rounds[] = {{1, 2 << 20, 3, 5 << 20}, {1, 3 << 20, -1, 0}, {2, 4 << 20, 2, 6 << 20}};
  REQUIRE(large.works.size() == 1);
  CHECK(large.works[0].channel == 0);
  REQUIRE(large.works[0].pair_count == std::size(rounds));
  for (size_t i = 0; i < std::size(rounds); ++i) {
    const kernels::PairStep& step = large.works[0].pairs[i];
    CHECK(step.send_peer == rounds[i].to);
    CHECK(step.send_count == rounds[i].sent);
    CHECK(step.recv_peer == rounds[i].from);
    CHECK(step.recv_count == rounds[i].received);
  }
  // Not to oneself, and not for those who want a number of channels or another protocol.
  const Operation self[] = {message(0, 2 << 20, true), message(0, 2 << 20, false)};
  CHECK_FALSE(planned(self, choices("", "")).ops[0].by_window_kernel);
  CHECK(planned(self, choices("", "")).ops[0].by_copies);
  const Operation one = message(1, 64 << 20, true);
  CHECK(planned({&one, 1}, choices("pairwise", "simple")).ops[0].by_window_kernel);
  CHECK(planned({&one, 1}, choices("", "", 8)).ops[0].works.size() == 8);
  CHECK_FALSE(planned({&one, 1}, choices("", "ll")).ops[0].by_window_kernel);
  // By lines up to where they reach, and where the paths bear them.
  shapes[0].window_serves = lines_too;
  const auto protocol_of = [&](uint64_t bytes, const char* proto) {
    const Operation op = message(2, bytes, true);
    const Plan made = planned({&op, 1}, choices("", proto));
    return std::string(name_of(made.ops[0].protocol)) +
           (made.ops[0].by_window_kernel ? " by window" : "");
  };
  for (const uint64_t bytes : {0, 1, 5000, 1 << 20})
    CHECK(protocol_of(bytes, "") == "ll128 by window");
  CHECK(protocol_of((1 << 20) + 1, "") == "simple by window");
  CHECK(protocol_of(5000, "ll128") == "ll128 by window");  // 2 is no neighbour in all rings
  CHECK(protocol_of(5000, "ll") == "ll");
  CHECK(protocol_of(5000, "simple") == "simple");
  shapes[0].ll128_passed = false;
  CHECK(protocol_of(5000, "") == "ll");
  CHECK(protocol_of(1 << 20, "") == "simple by window");
  shapes[0].gpu_window = false;
  CHECK_FALSE(planned({&one, 1}, choices("", "")).ops[0].by_window_kernel);
}

TEST_CASE("a window kernel gets the whole operation in one work", "[gpu][planner]") {
  const auto shapes = complete(gpu_job(4).shapes());
  const Operation op = operation(Collective::all_reduce, 1 << 18);
  auto plan = make_plan({&op, 1}, shapes[2], choices("two-shot", "simple", 8));
  REQUIRE(plan);
  const PlannedOp& planned = plan->ops[0];
  CHECK(planned.by_window_kernel);
  REQUIRE(planned.works.size() == 1);
  const kernels::Work& w = planned.works[0];
  CHECK(w.channel == 0);
  CHECK(w.part_offset == 0);
  CHECK(w.part_count == 1 << 18);
  CHECK(w.rank == 2);
  CHECK(w.nranks == 4);
  CHECK(w.input == kInput);
  CHECK(w.output == kOutput);
}

TEST_CASE("the choice of GPU ranks by size", "[gpu][planner]") {
  for (const int n : {2, 4}) {
    const auto shapes = complete(gpu_job(n).shapes());
    const auto way = [&](uint64_t bytes) {
      auto chosen = choose_collective(operation(Collective::all_reduce, bytes / 4), shapes[0],
                                      choices("", ""));
      REQUIRE(chosen);
      CHECK_FALSE(chosen->why.empty());
      CHECK_FALSE(chosen->expected.limited_by.empty());
      return std::string(name_of(chosen->algorithm)) + "/" + name_of(chosen->protocol);
    };
    CHECK(way(256) == "one-shot/ll");
    CHECK(way(4096) == "one-shot/ll");
    // Two ranks send as much either way, so the one with fewer flags.
    CHECK(way(512 << 10) == (n == 2 ? "one-shot/ll128" : "two-shot/ll128"));
    CHECK(way(4 << 20) == "two-shot/ll128");
    CHECK(way(8 << 20) == "two-shot/ll128");
    // Beyond LL128 here.
    CHECK(way(64 << 20) == "two-shot/simple");
    CHECK(way(uint64_t{4} << 30) == "ring/simple");  // beyond what windows serve here
  }
}

TEST_CASE("what is only moved goes by lines longer than sums do", "[gpu][planner]") {
  auto shapes = complete(gpu_job(2).shapes());
  shapes[0].window_serves = [](Collective, AlgorithmId algorithm, Protocol protocol, DataType type,
                               RedOp op, int nranks, uint64_t bytes) {
    return algorithm == AlgorithmId::one_shot &&
           serves_for_test(Collective::all_reduce, algorithm, protocol, type, op, nranks, bytes);
  };
  const auto way = [&](Collective c, uint64_t bytes_of_all) {
    auto chosen = choose_collective(operation(c, bytes_of_all / 8), shapes[0], choices("", ""));
    REQUIRE(chosen);
    return std::string(name_of(chosen->algorithm)) + "/" + name_of(chosen->protocol);
  };
  for (const Collective c : {Collective::all_gather, Collective::all_to_all}) {
    CHECK(way(c, 32 << 20) == "one-shot/ll128");
    CHECK(way(c, 64 << 20) == "one-shot/simple");
  }
  CHECK(way(Collective::reduce_scatter, 16 << 20) == "one-shot/ll128");
  CHECK(way(Collective::reduce_scatter, 32 << 20) == "one-shot/simple");
}

TEST_CASE("what GPU ranks cannot do is refused with the reason", "[gpu][planner]") {
  const auto refused = [](const CommShape& shape, const Operation& op, const char* algo,
                          const char* proto) {
    const auto plan = make_plan({&op, 1}, shape, choices(algo, proto));
    REQUIRE_FALSE(plan.ok());
    CHECK(plan.error().code == ErrorCode::usage);
    return plan.error().message;
  };
  const auto has = [](const std::string& text, const char* part) {
    INFO(text);
    CHECK(text.find(part) != std::string::npos);
  };
  auto shapes = complete(gpu_job(4).shapes());
  CommShape shape = shapes[0];
  const Operation op = operation(Collective::all_reduce, 1000);
  has(refused(shape, operation(Collective::all_reduce, 1000, DataType::int64), "one-shot", ""),
      "one-shot has no kernel for allreduce of 8000 bytes of int64");
  has(refused(shape, op, "pairwise", ""), "pairwise does not support allreduce");
  has(refused(shape, op, "doubling", "ll128"), "doubling does not support ll128");
  has(refused(shape, operation(Collective::reduce_scatter, 4 << 20), "halving", ""),
      "halving is for small operations: its sums of 2 blocks of 16777216 bytes exceed 16 MiB");
  shape.gpu_window = false;
  shape.no_window = "GPU 0 cannot reach GPU 1";
  has(refused(shape, op, "two-shot", ""),
      "two-shot needs memory that all ranks map, and there is none: GPU 0 cannot reach GPU 1");
  shape.ll128_passed = false;
  has(refused(shape, op, "ring", "ll128"), "ll128 was not tested on these paths");
  shape.no_ll128 = "ll128 lines are torn between ranks 0 and 1";
  has(refused(shape, op, "ring", "ll128"), "ll128 lines are torn between ranks 0 and 1");
  // Without a word from the user the next best is taken.
  CHECK(make_plan({&op, 1}, shape, choices("", "")).ok());
}

TEST_CASE("LL128 goes over a network between GPUs that RDMA reaches", "[gpu][planner]") {
  for (const int n : {9, 16, 24}) {
    auto job = gpu_job(n);
    job.gdr = true;
    const auto shapes = complete(job.shapes());
    for (const CommShape& shape : shapes) {
      CHECK(shape.slot_bytes[int(Protocol::ll128)] != 0);
      CHECK(shape.no_ll128 == "");
    }
    const auto ll128_of = [&](const Operation& op, const Choices& allowed) {
      const auto plan = make_plan({&op, 1}, shapes[0], allowed);
      REQUIRE(plan);
      return plan->ops.at(0).protocol == Protocol::ll128;
    };
    for (const Collective c :
         {Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter,
          Collective::broadcast, Collective::reduce}) {
      const Operation op = operation(c, 1003);
      CHECK(ll128_of(op, choices("", "ll128")));
      const auto plans = plans_of(shapes, op, choices("", "ll128"));
      check_alike(shapes, plans);
      check_proof(shapes, plans);
    }
    // Where NCCL's constants say that it pays: neither the smallest nor the largest.
    int taken = 0;
    for (uint64_t count = 1; count < uint64_t(1) << 30; count *= 2)
      taken += ll128_of(operation(Collective::all_reduce, count), {}) ? 1 : 0;
    CHECK(taken > 0);
    CHECK_FALSE(ll128_of(operation(Collective::all_reduce, 1), {}));
    CHECK_FALSE(ll128_of(operation(Collective::all_reduce, uint64_t(1) << 30), {}));
  }
}

TEST_CASE("LL128 goes over no other network", "[gpu][planner]") {
  for (const int n : {9, 16, 24}) {  // two hosts and three
    const auto shapes = complete(gpu_job(n).shapes());
    for (const CommShape& shape : shapes) {
      CHECK(shape.slot_bytes[int(Protocol::ll128)] == 0);
      CHECK(shape.no_ll128 ==
            "ll128 between hosts goes by RDMA between GPUs: ranks 0 and 1 use the network socket");
      for (const Collective c : kCollectives) {
        const Operation forced = operation(c, 100'000);
        const auto refused = make_plan({&forced, 1}, shape, choices("", "ll128"));
        REQUIRE_FALSE(refused);
        CHECK(refused.error().code == ErrorCode::usage);
        CHECK(refused.error().message.find("network") != std::string::npos);
        for (uint64_t count = 1; count < uint64_t(1) << 30; count *= test::nightly() ? 7 : 343) {
          const Operation op = operation(c, count);
          const auto plan = make_plan({&op, 1}, shape, {});
          REQUIRE(plan);
          for (const PlannedOp& planned : plan->ops) CHECK(planned.protocol != Protocol::ll128);
        }
      }
    }
  }
}

}  // namespace plan_gpu_planner_tests
