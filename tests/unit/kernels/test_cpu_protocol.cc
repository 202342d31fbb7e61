// The fifo protocol of the CPU backend, seen from outside: flags near the wrap, what a proxy needs,
// sleepers and their bells, helpers.
#include <sys/eventfd.h>
#include <unistd.h>

#include <random>

#include <pthread.h>

#include "base/wait.h"
#include "kernels/cpu/ll.h"
#include "kernels/cpu/wait.h"
#include "tests/asleep.h"
#include "tests/catch.h"
#include "tests/unit/kernels/cpu_operation.h"
#include "tests/unit/kernels/fifo_fixture.h"

namespace cpu_protocol_tests {

using namespace cpu_tests;
using collctl::Deadline;

namespace {

constexpr uint32_t kSlots = 4;
constexpr uint64_t kHalf = uint64_t(1) << 31;

// Rank 0 sends `count` floats to rank 1, as one chunk a step; every value is `value`.
bool hand_over(FifoFixture& fixture, int rank, std::vector<float>& data, Protocol protocol,
               CpuContext context) {
  static const std::vector<int32_t> order = {0, 1};
  Work w{};
  w.collective = Collective::broadcast;
  w.protocol = protocol;
  w.input = w.output = data.data();
  w.count = w.part_count = data.size();
  w.chunk_count = 64;
  w.ring = {1 - rank, 1 - rank, rank, 0, order.data()};
  w.rank = rank;
  w.nranks = 2;
  w.type = DataType::float32;
  return run_work(w, fixture.links(rank), context);
}

void move_both_ends(Connection& c, uint64_t steps) {
  c.sender.step += steps;
  c.receiver.step += steps;
  c.counters.head += steps;
}

// In turn: the sender's part, then the receiver's; small enough for the slots.
void hand_over_in_turn(FifoFixture& fixture, size_t count, float value, Protocol protocol) {
  std::vector<float> data(count, value);
  REQUIRE(hand_over(fixture, 0, data, protocol, fixture.context()));
  std::vector<float> got(count, -1);
  REQUIRE(hand_over(fixture, 1, got, protocol, fixture.context()));
  REQUIRE(got == data);
}

}  // namespace

TEST_CASE("LL lines that were not used for 2^32 steps are not taken for new ones") {
  // The steps begin a little before a multiple of 2^31. A long message fills all lines of every
  // slot; then only short ones, until 2^32 steps later the slots are at the same flags again.
  FifoFixture fixture({.slot_count = kSlots, .first_step = kHalf - 3 * kSlots});
  Connection& c = fixture.connection(0, 1, Protocol::ll);
  for (uint32_t i = 0; i < kSlots; ++i) hand_over_in_turn(fixture, 64, 1.0f, Protocol::ll);
  REQUIRE(c.sender.step == kHalf - 2 * kSlots);
  for (uint32_t i = 0; i < 2 * kSlots; ++i) hand_over_in_turn(fixture, 1, 2.0f, Protocol::ll);
  REQUIRE(c.sender.step == kHalf);
  // From here on only steps whose short messages would touch the first line: none is missed but
  // the second cleaning, which real steps pass as well.
  move_both_ends(c, kHalf - kSlots);
  for (uint32_t i = 0; i < kSlots; ++i) hand_over_in_turn(fixture, 1, 3.0f, Protocol::ll);
  REQUIRE(c.sender.step == 2 * kHalf);
  move_both_ends(c, kHalf - 3 * kSlots);
  // Now the flags of the long message come again. A producer that has written the first line of a
  // long message has not written the others, whatever they say.
  REQUIRE(uint32_t(c.receiver.step) == uint32_t(kHalf - 3 * kSlots));
  store_line(reinterpret_cast<Line*>(c.slots), 0, uint32_t(c.receiver.step + 1));
  std::vector<float> got(64, -1);
  CpuContext hasty = fixture.context();
  hasty.op_timeout_ns = 50'000'000;
  CHECK_FALSE(hand_over(fixture, 1, got, Protocol::ll, hasty));
  hand_over_in_turn(fixture, 64, 4.0f, Protocol::ll);
}

TEST_CASE("messages of all lengths pass the wrap of the LL flag") {
  for (const uint64_t first : {kHalf - 20, 2 * kHalf - 20, 4 * kHalf - 20}) {
    FifoFixture fixture({.slot_count = kSlots, .first_step = first});
    // The slots look as they would after the cleaning half a period ago.
    Connection& c = fixture.connection(0, 1, Protocol::ll);
    auto* lines = reinterpret_cast<Line*>(c.slots);
    for (uint64_t i = 0; i < kSlots * c.sender.slot_bytes / sizeof(Line); ++i)
      store_line(lines + i, ~uint64_t(0), uint32_t(first - kHalf));
    std::mt19937 random(3);
    std::vector<size_t> counts;
    for (int i = 0; i < 60; ++i) counts.push_back(1 + random() % 64);
    std::atomic<int> wrong{0};
    fixture.run_all([&](int rank) {
      for (size_t i = 0; i < counts.size(); ++i) {
        std::vector<float> data(counts[i], rank == 0 ? float(i) : -1.0f);
        if (!hand_over(fixture, rank, data, Protocol::ll, fixture.context()) ||
            data != std::vector<float>(counts[i], float(i)))
          ++wrong;
      }
    });
    CHECK(wrong == 0);
  }
}

TEST_CASE("a proxy finds the wire bytes of every slot and a tail, with LL too") {
  FifoFixture fixture({.slot_count = kSlots, .first_step = kHalf - kSlots - 2});
  for (const Protocol protocol : {Protocol::simple, Protocol::ll}) {
    Connection& c = fixture.connection(0, 1, protocol);
    c.sender.flags = kFifoProxyReads;
    const bool ll = protocol == Protocol::ll;
    uint64_t step = c.sender.step;
    for (const size_t count : {1u, 3u, 64u, 5u}) {
      hand_over_in_turn(fixture, count, 1.5f, protocol);
      // Near the wrap an LL slot goes out whole.
      const bool whole = step % kHalf >= kHalf - kSlots;
      const uint32_t wire = !ll     ? uint32_t(count * 4)
                            : whole ? c.sender.slot_bytes
                                    : uint32_t((count * 4 + 7) / 8 * 16);
      CHECK(c.records[step % kSlots].bytes == wire);
      CHECK(c.counters.tail == ++step);
    }
  }
}

TEST_CASE("without a proxy LL leaves the tail alone") {
  FifoFixture fixture({.slot_count = kSlots});
  hand_over_in_turn(fixture, 64, 1.0f, Protocol::ll);
  CHECK(fixture.connection(0, 1, Protocol::ll).counters.tail == 0);
  CHECK(fixture.connection(0, 1, Protocol::ll).counters.head == 1);
}

TEST_CASE("a sleeper is woken by its futex") {
  alignas(64) uint32_t word = 1;
  std::atomic<bool> awake{false};
  std::thread sleeper([&] {
    while (std::atomic_ref<uint32_t>(word).load(std::memory_order_acquire) == 1)
      collctl::base::futex_wait(&word, 1, Deadline::after_seconds(30));
    awake = true;
  });
  CHECK(collctl::test::wait_until_asleep(1));
  CHECK_FALSE(awake);
  wake_sleeper(&word, -1);
  const Deadline limit = Deadline::after_seconds(10);  // long before it would look by itself
  while (!awake && !limit.passed()) collctl::base::sleep_until(Deadline::after_ms(1));
  CHECK(awake);
  sleeper.join();
  CHECK(word == 0);
  wake_sleeper(&word, -1);  // nobody sleeps: nothing to do
  wake_sleeper(nullptr, -1);
}

TEST_CASE("a sleeper that polls is woken by its bell") {
  FifoFixture fixture({.slot_count = kSlots});
  const int bell = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  REQUIRE(bell >= 0);
  for (const Protocol protocol : {Protocol::simple, Protocol::ll}) {
    fixture.connection(0, 1, protocol).sender.bell_fd = bell;
    fixture.connection(0, 1, protocol).receiver.flags = collctl::kernels::kFifoProxyWrites;
  }
  struct Bell {
    int fd;
    std::atomic<int> rung{0}, assists{0}, round{0}, asleep{0};
  } state{bell};
  int wrong = 0;
  for (const Protocol protocol : {Protocol::simple, Protocol::ll}) {
    std::atomic<bool> bad{false};
    ++state.round;
    fixture.run_all([&](int rank) {
      CpuContext context = fixture.context();
      std::vector<float> data(10, rank == 0 ? 9.0f : -1.0f);
      if (rank == 0) {
        const Deadline limit = Deadline::after_seconds(60);
        while (state.asleep < state.round && !limit.passed())
          collctl::base::sleep_until(Deadline::after_ms(1));
      } else {
        context.assist_argument = &state;
        context.assist = [](void* argument, const Fifo*) {
          ++static_cast<Bell*>(argument)->assists;
          return false;
        };
        context.assist_sleep = [](void* argument, int64_t until_ns) {
          auto* s = static_cast<Bell*>(argument);
          pollfd p{s->fd, POLLIN, 0};
          uint64_t count = 0;
          // The first sleep of a round is ended by the bell, not by the time.
          const bool first = s->asleep < s->round;
          if (first) s->asleep = s->round.load();
          const auto ready = collctl::base::poll_fds(
              {&p, 1}, first ? Deadline::after_seconds(60) : Deadline::at_ns(until_ns));
          if (ready.ok() && *ready == 1 && ::read(s->fd, &count, sizeof count) == sizeof count)
            ++s->rung;
        };
      }
      if (!hand_over(fixture, rank, data, protocol, context) ||
          data != std::vector<float>(10, 9.0f))
        bad = true;
    });
    wrong += bad;
  }
  CHECK(wrong == 0);
  CHECK(state.rung >= 2);
  CHECK(state.assists > 0);
  ::close(bell);
}

TEST_CASE("a task for which no thread can be started is refused, and the pool goes on") {
  pthread_attr_t usual, huge;
  REQUIRE(pthread_getattr_default_np(&usual) == 0);
  REQUIRE(pthread_attr_init(&huge) == 0);
  REQUIRE(pthread_attr_setstacksize(&huge, size_t{1} << 47) == 0);
  HelperPool pool;
  bool ran = false;
  REQUIRE(pthread_setattr_default_np(&huge) == 0);
  CHECK_THROWS_AS(pool.run([&] { ran = true; }), std::system_error);
  REQUIRE(pthread_setattr_default_np(&usual) == 0);
  pool.run([] {}).wait();
  CHECK(!ran);
  pthread_attr_destroy(&huge);
  pthread_attr_destroy(&usual);
}

TEST_CASE("helpers run tasks side by side and are used again") {
  HelperPool pool;
  std::atomic<int> together{0}, ran{0};
  for (int round = 0; round < 3; ++round) {
    together = 0;
    std::vector<HelperPool::Ticket> tickets;
    for (int i = 0; i < 4; ++i)
      tickets.push_back(pool.run([&] {
        ++together;
        // Each waits until all four run; ended by the others.
        while (together < 4) collctl::base::yield_thread();
        ++ran;
      }));
    for (auto& ticket : tickets) ticket.wait();
    CHECK(ran == 4 * (round + 1));
  }
}

}  // namespace cpu_protocol_tests
