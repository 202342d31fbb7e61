// Ranks that meet through their launcher: what arrives from whom, in which order, and who is named
// when nothing does.
#include <sys/socket.h>

#include <array>
#include <thread>

#include "cmd/job/relay.h"
#include "cmd/rails/meeting.h"
#include "tests/catch.h"

namespace relay_tests {

using namespace collctl;
using namespace collctl::cmd;
using launcher::FrameChannel;
using launcher::FrameType;

namespace {

Bytes bytes_of(std::string_view text) {
  return {text.begin(), text.end()};
}

// As the launcher passes it on: from whom, then what.
Bytes passed(int from, std::string_view text) {
  ByteWriter w;
  w.put(int32_t(from)).put_rest(bytes_of(text));
  return w.take();
}

// Relays of ranks of one process, without a launcher.
struct Hub {
  struct Line : RankRelay {
    Status send(int rank, ByteView bytes, Deadline) override {
      ByteWriter w;
      w.put(int32_t(self)).put_rest(bytes);
      for (Line* other : *all)
        if (other != this && (rank == kAll || rank == other->self))
          COLL_TRY(other->inbox.arrived(w.bytes()));
      return {};
    }
    Result<Bytes> receive(int from, Deadline deadline) override {
      return inbox.receive(from, deadline);
    }
    int self = 0;
    std::vector<Line*>* all = nullptr;
    FrameChannel none{base::Fd()};
    LauncherRelay inbox{none};
  };
};

}  // namespace

TEST_CASE("relay: messages of a rank come in their order, whoever else sends", "[job]") {
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  FrameChannel rank{base::Fd(ends[0])}, launcher{base::Fd(ends[1])};
  LauncherRelay relay(rank);
  const Deadline soon = Deadline::after_seconds(20);
  REQUIRE(relay.send(7, bytes_of("hello"), soon).ok());
  const auto frame = launcher.receive(soon);
  REQUIRE(frame.ok());
  CHECK(frame->type == FrameType::relay);
  CHECK(frame->payload == passed(7, "hello"));

  REQUIRE(relay.arrived(passed(1, "a")).ok());
  REQUIRE(relay.arrived(passed(2, "x")).ok());
  REQUIRE(relay.arrived(passed(1, "b")).ok());
  CHECK(*relay.receive(2, soon) == bytes_of("x"));
  CHECK(*relay.receive(1, soon) == bytes_of("a"));
  CHECK(*relay.receive(1, soon) == bytes_of("b"));
  const auto late = relay.receive(1, Deadline::after_ms(0));
  REQUIRE_FALSE(late.ok());
  CHECK(late.error().code == ErrorCode::deadline);
  CHECK(late.error().rank == 1);
  const auto malformed = relay.arrived(bytes_of("no"));
  REQUIRE_FALSE(malformed.ok());
  CHECK(malformed.error().code == ErrorCode::lost);
  // A rank that waits hears why the job ends.
  std::thread ender([&] { relay.end(Error(ErrorCode::lost, "node03 is gone")); });
  const auto ended = relay.receive(1, soon);
  ender.join();
  REQUIRE_FALSE(ended.ok());
  CHECK(ended.error().message == "node03 is gone");
}

TEST_CASE("relay: all ranks gather the same", "[job]") {
  constexpr int kRanks = 3;
  std::array<Hub::Line, kRanks> lines;
  std::vector<Hub::Line*> all;
  for (int rank = 0; rank < kRanks; ++rank) {
    lines[size_t(rank)].self = rank;
    lines[size_t(rank)].all = &all;
    all.push_back(&lines[size_t(rank)]);
  }
  std::array<bool, kRanks> right{};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank)
    threads.emplace_back([&, rank] {
      const auto meeting = runtime::meet_through(lines[size_t(rank)], rank, kRanks);
      const Deadline soon = Deadline::after_seconds(20);
      bool good = true;
      for (const char* what : {"one", "", "three"}) {
        const auto told = meeting->gather(bytes_of(what + std::to_string(rank)), soon);
        good = good && told.ok() && told->size() == kRanks;
        for (int other = 0; good && other < kRanks; ++other)
          good = (*told)[size_t(other)] == bytes_of(what + std::to_string(other));
      }
      right[size_t(rank)] = good && meeting->finish(soon).ok();
    });
  for (std::thread& thread : threads) thread.join();
  for (const bool each : right) CHECK(each);
  // Rank 0 names who is missing.
  const auto alone = runtime::meet_through(lines[0], 0, kRanks);
  const auto missing = alone->gather(bytes_of("x"), Deadline::after_ms(0));
  REQUIRE_FALSE(missing.ok());
  CHECK(missing.error().rank == 1);
}

}  // namespace relay_tests
