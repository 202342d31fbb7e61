// Litmus tests of what the two sides of a fifo agree on without a lock. A processor of x86 keeps
// more order than was asked for, and so does an emulator that runs on one: what is missing shows on
// an Arm machine.
#include <barrier>
#include <functional>
#include <thread>

#include "kernels/cpu/fifo_end.h"
#include "kernels/cpu/ll.h"
#include "kernels/cpu/wait.h"
#include "tests/catch.h"
#include "transport/net/fifo_counters.h"
#include "transport/net/ll_lines.h"

namespace memory_order_tests {

using namespace collctl;

namespace {

constexpr uint64_t kRounds = 4000;

// In each round both at the same time, then the judge.
void race(const std::function<void(uint64_t)>& one, const std::function<void(uint64_t)>& other,
          const std::function<void(uint64_t)>& judge) {
  std::barrier begin(2), end(2);
  std::thread second([&] {
    for (uint64_t round = 1; round <= kRounds; ++round) {
      begin.arrive_and_wait();
      other(round);
      end.arrive_and_wait();
    }
  });
  for (uint64_t round = 1; round <= kRounds; ++round) {
    begin.arrive_and_wait();
    one(round);
    end.arrive_and_wait();
    judge(round);
  }
  second.join();
}

}  // namespace

TEST_CASE("a publisher and a sleeper at the same time: one of the two sees the other") {
  uint64_t counter = 0, seen = 0, missed = 0;
  uint32_t word = 0;
  const auto sleeper = [&](uint64_t) {
    transport::arm_word(&word);
    seen = transport::load_counter(&counter);
  };
  const auto judge = [&](uint64_t round) {
    missed += seen != round && word != 0;
    transport::disarm_word(&word);
  };
  SECTION("a driver publishes") {
    race([&](uint64_t round) { transport::publish(&counter, round, &word); }, sleeper, judge);
  }
  SECTION("a block publishes") {
    const auto publisher = [&](uint64_t round) {
      kernels::store_counter(&counter, round);
      kernels::wake_sleeper(&word, -1);
    };
    race(publisher, sleeper, judge);
  }
  CHECK(missed == 0);
}

// A ring of one line: the reader takes a step, the writer then writes the next one.
TEST_CASE("a line that is seen has its record before it") {
  kernels::Line line{};
  uint32_t record = 0;
  uint64_t wrong = 0;
  const std::atomic_ref<uint32_t> recorded(record);
  const auto reader = [&](uint64_t round) {
    uint64_t data = 0, seen = 0;
    while (!kernels::load_line(&line, uint32_t(round), data, seen)) kernels::pause_cpu();
    wrong += data != ~round || recorded.load(std::memory_order_relaxed) != round;
  };
  std::function<void(uint64_t)> write;
  SECTION("of a block") {
    write = [&](uint64_t round) { kernels::store_line(&line, ~round, uint32_t(round)); };
  }
  SECTION("of a driver") {
    write = [&](uint64_t round) {
      const uint64_t data = ~round;
      transport::unpack_lines(reinterpret_cast<const uint8_t*>(&data), 1,
                              {reinterpret_cast<uint8_t*>(&line), sizeof line, 1, round - 1});
    };
  }
  const auto writer = [&](uint64_t round) {
    recorded.store(uint32_t(round), std::memory_order_relaxed);
    write(round);
  };
  race(writer, reader, [](uint64_t) {});
  CHECK(wrong == 0);
}

}  // namespace memory_order_tests
