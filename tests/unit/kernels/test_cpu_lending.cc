// Messages that are lent: the receiver reads them out of the sender's memory. Sizes, mixtures with
// links that cannot, both ends' view of what goes wrong.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "base/wait.h"
#include "tests/asleep.h"
#include "tests/unit/kernels/lent_cases.h"

namespace cpu_lending_tests {

using namespace cpu_tests;

namespace {

void lend(FifoFixture& fixture, int from, int to, int process = ::getpid()) {
  Connection& c = fixture.connection(from, to, Protocol::simple);
  c.sender.flags |= kFifoLends;
  c.receiver.flags |= kFifoLends;
  c.receiver.process = process;
}
void lend_all(FifoFixture& fixture) {
  for (int from = 0; from < fixture.geometry.nranks; ++from)
    for (int to = 0; to < fixture.geometry.nranks; ++to)
      if (from != to) lend(fixture, from, to);
}
uint64_t steps(FifoFixture& fixture, int from, int to) {
  return fixture.connection(from, to, Protocol::simple).counters.head;
}

std::vector<Case> cases_of(int nranks) {
  std::vector<Case> cases;
  int turn = 0;
  for (const Collective collective :
       {Collective::send_recv, Collective::all_to_all, Collective::gather, Collective::scatter})
    for (const uint64_t count : {0, 1, 3, 4, 5, 130, 1003, 40001})
      for (const DataType type : {DataType::float32, DataType::uint8, DataType::float64}) {
        ++turn;
        cases.push_back({.algorithm = AlgorithmId::pairwise,
                         .collective = collective,
                         .type = type,
                         .count = count,
                         .root = turn % nranks,
                         .in_place = turn % 3 == 1,
                         .misalign = size_t(turn % 11)});
      }
  return cases;
}

struct Outcome {
  bool done = false;
  Report report{};
};

// sendrecv on two ranks with a count each; those with a count of 0 do not come.
std::vector<Outcome> exchange(FifoFixture& fixture, uint64_t count_0, uint64_t count_1,
                              int64_t timeout_ns = kShortTimeoutNs) {
  std::vector<Outcome> outcomes(2);
  const uint64_t counts[] = {count_0, count_1};
  for (const int rank : {0, 1})
    if (counts[rank] > 0)
      fixture.start(rank, [&](int r) {
        Operation operation({.algorithm = AlgorithmId::pairwise,
                             .collective = Collective::send_recv,
                             .count = counts[r]},
                            r, 2);
        CpuContext context = fixture.context();
        context.op_timeout_ns = timeout_ns;
        outcomes[size_t(r)].done = run_work(lent_work(operation), fixture.links(r), context);
        outcomes[size_t(r)].report = context.report;
      });
  fixture.join();
  return outcomes;
}

}  // namespace

TEST_CASE("lent messages arrive whole: all sizes, alignments, numbers of ranks", "[lending]") {
  for (int n = 1; n <= 8; ++n) {
    CAPTURE(n);
    FifoFixture fixture({.nranks = n, .slot_count = n % 2 == 0 ? 2u : 8u});
    lend_all(fixture);
    CHECK(run_cases(fixture, cases_of(n)) == "");
  }
}

TEST_CASE("links that lend beside links that do not", "[lending]") {
  FifoFixture fixture({.nranks = 5, .slot_count = 2});
  for (int from = 0; from < 5; ++from)
    for (int to = 0; to < 5; ++to)
      if (from != to && (from + 2 * to) % 3 != 0) lend(fixture, from, to);
  CHECK(run_cases(fixture, cases_of(5)) == "");
}

TEST_CASE("a lent message takes a step for each large chunk, another as many as it has slices",
          "[lending]") {
  // 256 bytes a slot; a chunk of Case has 64.
  const Case large{.algorithm = AlgorithmId::pairwise,
                   .collective = Collective::send_recv,
                   .type = DataType::uint8,
                   .count = 2 * kLentBytes + 5};
  Case small = large;
  small.count = 15;  // below the least that is lent
  FifoFixture fixture({.nranks = 2});
  lend_all(fixture);
  CHECK(run_cases(fixture, {large}) == "");
  CHECK(steps(fixture, 0, 1) == 3);
  CHECK(steps(fixture, 1, 0) == 3);
  CHECK(run_cases(fixture, {small}) == "");
  CHECK(steps(fixture, 0, 1) == 4);
  CHECK(fixture.connection(0, 1, Protocol::simple).records[3].bytes == 15);
  // More chunks than there are slots, of unlike numbers to either side.
  FifoFixture few({.nranks = 3, .slot_count = 2});
  lend(few, 0, 1);
  lend(few, 1, 2);
  Case longest = large;
  longest.count = 5 * kLentBytes + 5;
  longest.chunk_bytes = 256;
  CHECK(run_cases(few, {longest}) == "");
  CHECK(steps(few, 0, 1) == 6);
  CHECK(steps(few, 2, 0) > 1000);
  FifoFixture slots({.nranks = 2});
  lend(slots, 0, 1);
  Case middle = large;
  middle.count = 6400;
  CHECK(run_cases(slots, {middle}) == "");
  CHECK(steps(slots, 0, 1) == 1);
  CHECK(steps(slots, 1, 0) == 100);
}

TEST_CASE("lent messages of different sizes are told apart, with both sizes", "[lending]") {
  FifoFixture fixture({.nranks = 2});
  lend_all(fixture);
  const auto outcomes = exchange(fixture, 500, 700);
  for (const int rank : {0, 1}) {
    CAPTURE(rank);
    CHECK_FALSE(outcomes[size_t(rank)].done);
    CHECK(outcomes[size_t(rank)].report.code == ReportCode::wrong_size);
    CHECK(outcomes[size_t(rank)].report.peer == 1 - rank);
    CHECK(outcomes[size_t(rank)].report.seen == (rank == 0 ? 2800 : 2000));
    CHECK(outcomes[size_t(rank)].report.wanted == (rank == 0 ? 2000 : 2800));
  }
}

TEST_CASE("who lends waits until it was read, then takes it back", "[lending]") {
  FifoFixture fixture({.nranks = 2});
  lend_all(fixture);
  // Rank 1 sends nothing but what this test says, so that rank 0 has all it waits for but the end.
  Connection& back = fixture.connection(1, 0, Protocol::simple);
  const std::vector<float> theirs(500, 3.0f);
  const Lent lent{reinterpret_cast<uintptr_t>(theirs.data()), 2000};
  std::memcpy(back.slots, &lent, sizeof lent);
  back.records[0].bytes = kSlotLends;
  back.counters.tail = 1;
  const auto late = exchange(fixture, 500, 0)[0];
  CHECK_FALSE(late.done);
  CHECK(late.report.code == ReportCode::timeout);
  CHECK(late.report.side == WaitSide::send);
  CHECK(late.report.peer == 1);
  CHECK(late.report.step == 0);
  CHECK(late.report.wanted == 1);
  CHECK(back.counters.head == 1);
  Connection& there = fixture.connection(0, 1, Protocol::simple);
  CHECK(there.records[0].bytes == kSlotTakenBack);
  // The one who comes too late reads nothing that could be anything.
  const auto too_late = exchange(fixture, 0, 500)[1];
  CHECK_FALSE(too_late.done);
  CHECK(too_late.report.code == ReportCode::unreadable);
  CHECK(too_late.report.peer == 0);
  CHECK(too_late.report.seen == ECANCELED);
}

TEST_CASE("an abort ends the wait of who lends", "[lending]") {
  FifoFixture fixture({.nranks = 3});
  lend_all(fixture);
  std::vector<Outcome> outcomes(3);
  for (const int rank : {1, 2})
    fixture.start(rank, [&](int r) {
      Operation operation({.algorithm = AlgorithmId::pairwise,
                           .collective = Collective::gather,
                           .count = 500,
                           .root = 0},
                          r, 3);
      CpuContext context = fixture.context();
      outcomes[size_t(r)].done = run_work(lent_work(operation), fixture.links(r), context);
      outcomes[size_t(r)].report = context.report;
    });
  CHECK(collctl::test::wait_until_asleep(2));
  fixture.abort();
  fixture.join();
  for (const int rank : {1, 2}) {
    CHECK_FALSE(outcomes[size_t(rank)].done);
    CHECK(outcomes[size_t(rank)].report.code == ReportCode::aborted);
    CHECK(outcomes[size_t(rank)].report.peer == 0);
    CHECK(fixture.connection(rank, 0, Protocol::simple).records[0].bytes == kSlotTakenBack);
  }
}

TEST_CASE("memory that cannot be read is an error with its reason", "[lending]") {
  const auto reports = [](int process, const void* address) {
    FifoFixture fixture({.nranks = 2});
    lend(fixture, 1, 0, process);
    Connection& c = fixture.connection(1, 0, Protocol::simple);
    const Lent lent{reinterpret_cast<uintptr_t>(address), 2000};
    std::memcpy(c.slots, &lent, sizeof lent);
    c.records[0].bytes = kSlotLends;
    c.counters.tail = 1;
    const Outcome outcome = exchange(fixture, 500, 0)[0];
    CHECK_FALSE(outcome.done);
    CHECK(outcome.report.code == ReportCode::unreadable);
    CHECK(outcome.report.peer == 1);
    CHECK(outcome.report.side == WaitSide::recv);
    return outcome.report.seen;
  };
  const pid_t gone = ::fork();
  REQUIRE(gone >= 0);
  if (gone == 0) ::_exit(0);
  REQUIRE(::waitpid(gone, nullptr, 0) == gone);
  const std::vector<float> theirs(500);
  CHECK(reports(gone, theirs.data()) == ESRCH);
  void* page = ::mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(page != MAP_FAILED);
  CHECK(reports(::getpid(), page) == EFAULT);
  ::munmap(page, 4096);
}

TEST_CASE("injected faults show in lent messages, too", "[lending]") {
  for (const FaultKind kind : {FaultKind::missing, FaultKind::doubled, FaultKind::corrupt}) {
    FifoFixture fixture({.nranks = 2});
    lend_all(fixture);
    std::vector<float> got(500);
    std::atomic<int> done = 0;
    fixture.run_all([&](int rank) {
      Operation operation(
          {.algorithm = AlgorithmId::pairwise, .collective = Collective::send_recv, .count = 500},
          rank, 2);
      std::vector<float> input(500, 3.0f);
      Work work = lent_work(operation);
      PairStep step = work.pairs[0];
      step.send = input.data();
      if (rank == 0) step.recv = got.data();
      work.pairs = &step;
      CpuContext context = fixture.context();
      context.fault = {kind, 0, 0, 0};
      done += run_work(work, fixture.links(rank), context) ? 1 : 0;
    });
    CHECK(done == 2);
    const float expected = kind == FaultKind::missing   ? 0.0f
                           : kind == FaultKind::doubled ? 6.0f
                                                        : 3.0f;
    CHECK(got[1] == expected);
    CHECK((got[0] == expected) == (kind != FaultKind::corrupt));
  }
}

TEST_CASE("ranks that are processes lend to each other", "[lending]") {
  // Fifos in memory that both map; the child's input is not where the parent's is.
  void* block = ::mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(block != MAP_FAILED);
  const auto fifo = [&](int number, int peer, int producer) {
    auto* at = static_cast<uint8_t*>(block) + number * 65536;
    auto* counters = reinterpret_cast<FifoCounters*>(at);
    Fifo f{};
    f.slots = at + 4096;
    f.tail = &counters->tail;
    f.head = &counters->head;
    f.consumer_sleeps = &counters->consumer_sleeps;
    f.producer_sleeps = &counters->producer_sleeps;
    f.records = reinterpret_cast<SlotRecord*>(at + 1024);
    f.slot_bytes = 1024;
    f.slot_count = 4;
    f.peer = peer;
    f.bell_fd = -1;
    f.flags = kFifoLends;
    f.process = producer;
    return f;
  };
  const pid_t parent = ::getpid();
  const auto run = [&](int rank, int peer_process) {
    Fifo out = fifo(rank, 1 - rank, 0), in = fifo(1 - rank, 1 - rank, peer_process);
    Fifo* send[2 * kProtocolCount] = {};
    Fifo* recv[2 * kProtocolCount] = {};
    send[(1 - rank) * kProtocolCount] = &out;
    recv[(1 - rank) * kProtocolCount] = &in;
    CpuContext context;
    context.op_timeout_ns = 20'000'000'000;
    for (const uint64_t count : {1ul, 300ul, 100'003ul, 3'000'000ul}) {
      Operation operation({.algorithm = AlgorithmId::pairwise,
                           .collective = Collective::send_recv,
                           .count = count,
                           .misalign = size_t(rank) * 3},
                          rank, 2);
      if (!run_work(lent_work(operation), {send, recv}, context)) return false;
      if (!operation.check().empty()) return false;
    }
    return out.step > 0;
  };
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) ::_exit(run(1, parent) ? 0 : 1);
  CHECK(run(0, child));
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  ::munmap(block, 1 << 20);
}

}  // namespace cpu_lending_tests
