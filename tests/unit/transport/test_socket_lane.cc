// How one socket of a network connection ends: what counts as a clean close, and what as a peer
// that is lost in the middle. The other end is a bare socket, so that it may stop anywhere.
#include <sys/socket.h>

#include "base/socket.h"
#include "base/wait.h"
#include "tests/catch.h"
#include "transport/net/socket/lane.h"

namespace socket_lane_tests {

using namespace collctl;
using namespace collctl::transport;

namespace {

struct Owner : LaneOwner {
  std::vector<uint8_t> memory = std::vector<uint8_t>(4096);
  int bodies = 0, taken = 0;
  Result<uint8_t*> place(int, const WireHeader&) override { return memory.data(); }
  void arrived(int, const WireHeader&) override { ++bodies; }
  void sent(const WireHeader&) override { ++taken; }
};

struct Ends {
  Owner owner;
  base::Fd peer;
  std::unique_ptr<SocketLane> lane;

  Ends() {
    int fds[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) == 0);
    peer = base::Fd(fds[0]);
    lane = std::make_unique<SocketLane>(0, base::Fd(fds[1]), owner, 8);
  }
  // Sends part of the message: its header and so much of its body.
  void say(const WireHeader& header, size_t body) {
    Bytes wire(sizeof header + body, 7);
    std::memcpy(wire.data(), &header, sizeof header);
    say(wire);
  }
  void say(ByteView wire) {
    REQUIRE(::send(peer.get(), wire.data(), wire.size(), 0) == ssize_t(wire.size()));
  }
};

constexpr WireHeader data(uint32_t bytes) {
  return {kWireMagic, WireKind::data, 0, bytes, 0};
}
constexpr WireHeader goodbye{kWireMagic, WireKind::goodbye, 0, 0, 0};
constexpr WireHeader credit{kWireMagic, WireKind::credit, 0, 0, 1};

}  // namespace

TEST_CASE("a sender that goes without a goodbye is lost, wherever it stopped") {
  for (const size_t body : {0, 1, 60, 99, 100}) {
    INFO("body " << body);
    Ends ends;
    ends.say(data(100), body);
    REQUIRE(ends.lane->pump_in());
    CHECK(ends.owner.bodies == (body == 100 ? 1 : 0));
    ends.peer.reset();
    const auto ended = ends.lane->pump_in();
    REQUIRE_FALSE(ended);
    CHECK(ended.error().code == ErrorCode::lost);
    CHECK_FALSE(ends.lane->closed());
  }
}

TEST_CASE("a goodbye and then the end is a clean close") {
  Ends ends;
  ends.say(data(100), 100);
  ends.say(goodbye, 0);
  REQUIRE(ends.lane->pump_in());
  CHECK(ends.owner.bodies == 1);
  CHECK(ends.lane->peer_done());
  CHECK_FALSE(ends.lane->closed());
  ends.peer.reset();
  REQUIRE(ends.lane->pump_in());
  CHECK(ends.lane->closed());
  CHECK_FALSE(*ends.lane->pump_in());  // nothing is read any more
}

TEST_CASE("half a message behind a goodbye is no clean close") {
  Ends ends;
  ends.say(goodbye, 0);
  const Bytes half(sizeof(WireHeader) / 2, 1);
  ends.say(half);
  REQUIRE(ends.lane->pump_in());
  ends.peer.reset();
  CHECK_FALSE(ends.lane->pump_in());
  CHECK_FALSE(ends.lane->closed());
}

TEST_CASE("data that a peer that said goodbye does not take is an error, a credit is none") {
  for (const bool with_data : {true, false}) {
    INFO("data " << with_data);
    Ends ends;
    ends.say(goodbye, 0);
    REQUIRE(ends.lane->pump_in());
    ends.peer.reset();
    const Bytes body(100, 3);
    REQUIRE(ends.lane->push(credit, nullptr));
    if (with_data) REQUIRE(ends.lane->push(data(100), body.data()));
    REQUIRE(ends.lane->push(goodbye, nullptr));
    const auto sent = ends.lane->pump_out();
    CHECK(sent.ok() != with_data);
    CHECK(ends.owner.taken == 0);
    CHECK(ends.lane->sending() == with_data);
  }
}

TEST_CASE("a credit that a peer without a goodbye does not take is an error") {
  Ends ends;
  ends.peer.reset();
  REQUIRE(ends.lane->push(credit, nullptr));
  CHECK_FALSE(ends.lane->pump_out());
}

}  // namespace socket_lane_tests
