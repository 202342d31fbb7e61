// The log of waits: who waits now, read by another thread while they come and go; sums by peer.
#include "kernels/cpu/wait_log.h"

#include <thread>

#include "tests/catch.h"

namespace wait_log_tests {

using namespace collctl::kernels;

namespace {

Report wait_for(int peer, uint64_t step) {
  Report report{};
  report.rank = 0;
  report.peer = peer;
  report.step = step;
  report.wanted = step + 1;
  return report;
}

}  // namespace

TEST_CASE("waits are there from begin to end", "[waits]") {
  WaitLog log(4, false);
  CHECK_FALSE(log.sums());
  CHECK(log.now().empty());
  const int first = log.begin(wait_for(3, 41), 1000), second = log.begin(wait_for(2, 7), 2000);
  REQUIRE(first >= 0);
  REQUIRE(second >= 0);
  const auto now = log.now();
  REQUIRE(now.size() == 2);
  CHECK(now[0].wait.peer == 3);
  CHECK(now[0].wait.wanted == 42);
  CHECK(now[0].since_ns == 1000);
  log.end(first);
  REQUIRE(log.now().size() == 1);
  CHECK(log.now()[0].wait.peer == 2);
  log.end(second);
  CHECK(log.now().empty());
  // More at the same time than are noted.
  int places = 0;
  while (log.begin(wait_for(1, 0), 1) >= 0) ++places;
  CHECK(places == 64);
  CHECK(log.now().size() == 64);
}

TEST_CASE("sums by peer, and the time in which the waiting thread did not run", "[waits]") {
  WaitLog log(3, true);
  log.add(1, WaitSide::recv, 0, 100, 0);
  log.add(1, WaitSide::recv, 1, 50, 7);
  log.add(2, WaitSide::send, 0, 30, 0);
  log.add(-1, WaitSide::recv, 9, 1, 1);  // the network itself: nobody's
  log.add(3, WaitSide::recv, 9, 1, 1);
  CHECK(log.of(1).recv_ns == 150);
  CHECK(log.of(1).waits == 2);
  CHECK(log.of(2).send_ns == 30);
  CHECK(log.of(2).recv_ns == 0);
  CHECK(log.away_ns() == 7);
  CHECK(log.channels() == 2);
}

TEST_CASE("a reader never sees halves of two waits", "[waits]") {
  WaitLog log(2, false);
  std::atomic<bool> over{false};
  std::vector<std::thread> writers;
  for (int t = 0; t < 3; ++t)
    writers.emplace_back([&, t] {
      for (uint64_t step = uint64_t(t); !over.load(); step += 3) {
        const int place = log.begin(wait_for(int(step % 1000), step), int64_t(step));
        if (place >= 0) log.end(place);
      }
    });
  int seen = 0, torn = 0;
  for (int look = 0; look < 200'000; ++look)
    for (const WaitLog::Now& now : log.now()) {
      ++seen;
      torn += now.wait.peer != int(now.wait.step % 1000) || now.wait.wanted != now.wait.step + 1 ||
              now.since_ns != int64_t(now.wait.step);
    }
  over = true;
  for (std::thread& writer : writers) writer.join();
  INFO(seen << " seen");
  CHECK(torn == 0);
}

}  // namespace wait_log_tests
