// When things go wrong on the CPU backend: aborts, timeouts and who they name, injected faults.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "base/wait.h"
#include "tests/asleep.h"
#include "tests/catch.h"
#include "tests/unit/kernels/cpu_operation.h"
#include "tests/unit/kernels/fifo_fixture.h"

namespace cpu_failures_tests {

using namespace cpu_tests;
using collctl::Deadline;
using collctl::ErrorCode;

namespace {

constexpr int64_t kShortTimeoutNs = 150'000'000;

struct Outcome {
  bool done = false;
  Report report{};
};

// Runs one operation on the given ranks only; the others never come.
std::vector<Outcome> run_some(FifoFixture& fixture, const Case& c, const std::vector<int>& ranks,
                              int64_t timeout_ns, const std::function<void()>& meanwhile = {}) {
  std::vector<Outcome> outcomes(size_t(fixture.geometry.nranks));
  for (const int rank : ranks)
    fixture.start(rank, [&](int r) {
      Operation operation(c, r, fixture.geometry.nranks);
      CpuContext context = fixture.context();
      context.op_timeout_ns = timeout_ns;
      outcomes[size_t(r)].done = run_work(operation.work(), fixture.links(r), context);
      outcomes[size_t(r)].report = context.report;
    });
  if (meanwhile) meanwhile();
  fixture.join();
  return outcomes;
}

// Float32 sums of two or three ranks with a fault armed on one: each rank's result at element i.
std::vector<std::vector<float>> sums_with(const Fault& fault, Protocol protocol, int n,
                                          uint64_t count, uint64_t chunk_bytes) {
  FifoFixture fixture({.nranks = n, .slot_data_bytes = 256});
  const Case c{.protocol = protocol, .count = count, .chunk_bytes = chunk_bytes};
  std::vector<std::vector<float>> results(static_cast<size_t>(n));
  fixture.run_all([&](int rank) {
    Operation operation(c, rank, n);
    CpuContext context = fixture.context();
    context.fault = fault;
    Work work = operation.work();
    // Rank order around the ring, and contributions 1, 10, 100 that tell the ranks apart.
    std::vector<float> input(count, rank == 0 ? 1.0f : rank == 1 ? 10.0f : 100.0f);
    auto& result = results[size_t(rank)];
    result.assign(count, -1.0f);
    std::vector<int32_t> order;
    for (int i = 0; i < n; ++i) order.push_back(i);
    work.ring = {(rank + n - 1) % n, (rank + 1) % n, rank, 0, order.data()};
    work.input = input.data();
    work.output = result.data();
    if (!run_work(work, fixture.links(rank), context)) result.clear();
  });
  return results;
}

}  // namespace

TEST_CASE("an abort frees every waiter at once") {
  for (const AlgorithmId algorithm :
       {AlgorithmId::ring, AlgorithmId::tree, AlgorithmId::tree_split})
    for (const Protocol protocol : {Protocol::simple, Protocol::ll}) {
      FifoFixture fixture({.nranks = 4, .slot_count = 2});
      const Case c{.algorithm = algorithm, .protocol = protocol, .count = 5000};
      const auto outcomes = run_some(fixture, c, {0, 1, 3}, 60'000'000'000, [&] {
        CHECK(collctl::test::wait_until_asleep(3));
        fixture.abort();
      });
      for (const int rank : {0, 1, 3}) {
        CAPTURE(rank, int(algorithm), int(protocol));
        CHECK_FALSE(outcomes[size_t(rank)].done);
        CHECK(outcomes[size_t(rank)].report.code == ReportCode::aborted);
        CHECK(outcomes[size_t(rank)].report.rank == rank);
      }
    }
}

TEST_CASE("a timeout names the peer, the side and the step it waited for") {
  SECTION("data that never comes, Simple") {
    FifoFixture fixture({.nranks = 2});
    const auto r = run_some(fixture, {.count = 64}, {0}, kShortTimeoutNs)[0];
    CHECK_FALSE(r.done);
    CHECK(r.report.code == ReportCode::timeout);
    CHECK(r.report.side == WaitSide::recv);
    CHECK(r.report.rank == 0);
    CHECK(r.report.peer == 1);
    CHECK(r.report.step == 0);
    CHECK(r.report.seen == 0);
    CHECK(r.report.wanted == 1);
    CHECK(r.report.protocol == Protocol::simple);
    CHECK(r.report.algorithm == AlgorithmId::ring);
    CHECK(r.report.collective == Collective::all_reduce);
    CHECK(r.report.op_count == 7);
  }
  SECTION("data that never comes, LL, far into the connection") {
    const uint64_t step = (uint64_t(1) << 40) + 5;
    FifoFixture fixture({.nranks = 2, .first_step = step});
    const auto r =
        run_some(fixture, {.protocol = Protocol::ll, .count = 64}, {1}, kShortTimeoutNs)[1];
    CHECK_FALSE(r.done);
    CHECK(r.report.code == ReportCode::timeout);
    CHECK(r.report.side == WaitSide::recv);
    CHECK(r.report.peer == 0);
    CHECK(r.report.step == step);
    CHECK(r.report.seen == 0);
    CHECK(r.report.wanted == uint32_t(step + 1));
  }
  for (const Protocol protocol : {Protocol::simple, Protocol::ll})
    SECTION(std::string("a slot that is never freed, ") + name_of(protocol)) {
      FifoFixture fixture({.nranks = 2, .slot_count = 4});
      Case c{.collective = Collective::broadcast, .protocol = protocol, .count = 640};
      const auto r = run_some(fixture, c, {0}, kShortTimeoutNs)[0];
      CHECK_FALSE(r.done);
      CHECK(r.report.code == ReportCode::timeout);
      CHECK(r.report.side == WaitSide::send);
      CHECK(r.report.peer == 1);
      CHECK(r.report.step == 4);
      CHECK(r.report.seen == 0);
      CHECK(r.report.wanted == 1);
    }
  SECTION("a tree split: the first part that aborts is the one reported") {
    FifoFixture fixture({.nranks = 4});
    Case c{.algorithm = AlgorithmId::tree_split, .count = 64};
    const auto r = run_some(fixture, c, {2}, kShortTimeoutNs)[2];  // waits for 1, 3 and 0
    CHECK_FALSE(r.done);
    CHECK(r.report.code == ReportCode::timeout);
    CHECK(r.report.side == WaitSide::recv);
    CHECK((r.report.peer == 1 || r.report.peer == 0));
  }
}

TEST_CASE("a rank that waits for long leaves its core to others") {
  constexpr int64_t kWaitNs = 1'000'000'000;
  FifoFixture fixture({.nranks = 2});
  int64_t used_ns = 0, passed_ns = 0;
  fixture.start(0, [&](int) {
    const auto cpu_ns = [] {
      timespec t{};
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
      return int64_t(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
    };
    const Case c{};
    Operation operation(c, 0, 2);
    CpuContext context = fixture.context();
    collctl::base::WaitPolicy policy(collctl::base::WaitPolicy::own_core(100'000));
    context.waiting = &policy;
    context.op_timeout_ns = kWaitNs;
    const int64_t before_ns = cpu_ns(), began_ns = collctl::base::machine_ns();
    CHECK_FALSE(run_work(operation.work(), fixture.links(0), context));
    used_ns = cpu_ns() - before_ns;
    passed_ns = collctl::base::machine_ns() - began_ns;
  });
  fixture.join();
  CHECK(passed_ns >= kWaitNs);
  CHECK(used_ns < passed_ns / 5);
}

TEST_CASE("progress, however slow, is no timeout") {
  // One chain of 8 chunks; the root sleeps before each, together longer than the timeout.
  FifoFixture fixture({.nranks = 2, .slot_count = 2});
  Connection& c = fixture.connection(0, 1, Protocol::simple);
  Case chain{.collective = Collective::broadcast, .count = 8 * 16};
  fixture.start(0, [&](int) {
    for (int i = 0; i < 8; ++i) {
      // time is what is tested: a root that is slow, not one that stands still
      collctl::base::sleep_until(Deadline::after_ms(300));
      // A slot is written again when it is free, however late this machine lets the reader run.
      const std::atomic_ref<uint64_t> taken(c.counters.head);
      const Deadline deadline = Deadline::after_seconds(20);
      while (taken.load(std::memory_order_acquire) + 2 <= uint64_t(i) && !deadline.passed())
        collctl::base::sleep_until(Deadline::after_ms(1));
      c.records[size_t(i) % 2].bytes = 64;  // a chunk
      std::atomic_ref<uint64_t>(c.counters.tail).store(uint64_t(i) + 1, std::memory_order_release);
    }
  });
  Operation operation(chain, 1, 2);
  CpuContext context = fixture.context();
  context.op_timeout_ns = 2'000'000'000;
  const int64_t start_ns = collctl::now_ns();
  CHECK(run_work(operation.work(), fixture.links(1), context));
  CHECK(collctl::now_ns() - start_ns > context.op_timeout_ns);
}

TEST_CASE("faults are parsed, and nonsense is refused with the form expected") {
  auto fault = parse_fault("doubled:rank=3:channel=1:step=17");
  REQUIRE(fault.ok());
  CHECK(fault->kind == FaultKind::doubled);
  CHECK(fault->rank == 3);
  CHECK(fault->channel == 1);
  CHECK(fault->step == 17);
  fault = parse_fault("");
  REQUIRE(fault.ok());
  CHECK(fault->kind == FaultKind::none);
  fault = parse_fault("exit:rank=0");
  REQUIRE(fault.ok());
  CHECK(fault->step == 0);
  for (const char* bad : {"lost:rank=1", "missing", "missing:rank=", "missing:rank=x",
                          "missing:rank=-1", "missing:rank=1:slot=2", "missing:rank=1:step",
                          "none:rank=1", "missing:rank=99999999999", "missing:channel=1"}) {
    const auto refused = parse_fault(bad);
    CAPTURE(bad);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code == ErrorCode::usage);
    CHECK(refused.error().message.find("missing|doubled|corrupt|stall|exit") != std::string::npos);
  }
}

TEST_CASE("a missing, doubled or corrupted contribution shows in the right place only") {
  for (const Protocol protocol : {Protocol::simple, Protocol::ll}) {
    CAPTURE(int(protocol));
    // 3 ranks, 48 elements, chunks of 16: rank 0's first receiving slice reduces chunk 1 from rank
    // 2 (which carries rank 2's contribution) and passes it on.
    const auto good = sums_with({}, protocol, 3, 48, 64);
    for (const auto& r : good) CHECK(r == std::vector<float>(48, 111.0f));
    for (const FaultKind kind : {FaultKind::missing, FaultKind::doubled, FaultKind::corrupt}) {
      const Fault fault{kind, 0, 0, 0};
      const auto bad = sums_with(fault, protocol, 3, 48, 64);
      const float wrong = kind == FaultKind::missing ? 11.0f : 211.0f;
      int differing = 0;
      for (const auto& r : bad)
        for (size_t i = 0; i < r.size(); ++i) {
          if (r[i] == 111.0f) continue;
          ++differing;
          CHECK(i >= 16);
          CHECK(i < 32);
          if (kind != FaultKind::corrupt) CHECK(r[i] == wrong);
        }
      CHECK(differing == (kind == FaultKind::corrupt ? 3 : 3 * 16));
    }
    // Another rank or channel is not touched.
    CHECK(sums_with({FaultKind::missing, 5, 0, 0}, protocol, 3, 48, 64)[0] == good[0]);
    CHECK(sums_with({FaultKind::missing, 0, 1, 0}, protocol, 3, 48, 64)[0] == good[0]);
    // Counted per slice: the last slice that rank 0 receives is a plain recv, of chunk 2.
    const auto last = sums_with({FaultKind::missing, 0, 0, 3}, protocol, 3, 48, 64);
    CHECK(last[1] == good[1]);
    CHECK(last[0] != good[0]);
  }
}

TEST_CASE("a stalled rank makes its peers time out, and ends by their abort") {
  FifoFixture fixture({.nranks = 2});
  std::vector<Outcome> outcomes(2);
  fixture.run_all([&](int rank) {
    Operation operation({.count = 64}, rank, 2);
    CpuContext context = fixture.context();
    context.op_timeout_ns = rank == 0 ? kShortTimeoutNs : 60'000'000'000;
    context.fault = {FaultKind::stall, 1, 0, 0};
    auto& outcome = outcomes[size_t(rank)];
    outcome.done = run_work(operation.work(), fixture.links(rank), context);
    outcome.report = context.report;
    if (rank == 0) fixture.abort();
  });
  CHECK_FALSE(outcomes[0].done);
  CHECK(outcomes[0].report.code == ReportCode::timeout);
  CHECK(outcomes[0].report.peer == 1);
  CHECK_FALSE(outcomes[1].done);
  CHECK(outcomes[1].report.code == ReportCode::aborted);
}

TEST_CASE("a rank with the exit fault dies by SIGKILL") {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    // The peer's data is put there by this thread, so that no other one is needed.
    FifoFixture fixture({.nranks = 2});
    Connection& from_peer = fixture.connection(1, 0, Protocol::simple);
    from_peer.records[0].bytes = 16;  // half of 8 floats
    from_peer.counters.tail = 1;
    Operation operation({.count = 8}, 0, 2);
    CpuContext context = fixture.context();
    context.fault = {FaultKind::exit, 0, 0, 0};
    context.op_timeout_ns = kShortTimeoutNs;
    run_work(operation.work(), fixture.links(0), context);
    ::_exit(3);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGKILL);
}

}  // namespace cpu_failures_tests
