// Connections by sockets between two ranks, one each way, that share a socket: where both ends want
// it, whatever comes before the second end has joined, and how it ends.
#include <dirent.h>
#include <sys/socket.h>

#include <cstdlib>
#include <thread>

#include "runtime/links/proxy.h"
#include "tests/asleep.h"
#include "tests/catch.h"
#include "tests/unit/transport/block.h"
#include "tests/unit/transport/rig.h"

namespace joined_tests {

using namespace collctl;
using namespace collctl::test;

namespace {

// Connections of TCP that this process has, both ends counted.
int tcp_connections() {
  int count = 0;
  DIR* const folder = ::opendir("/proc/self/fd");
  REQUIRE(folder != nullptr);
  while (const dirent* entry = ::readdir(folder)) {
    sockaddr_storage peer{};
    socklen_t length = sizeof peer;
    if (::getpeername(std::atoi(entry->d_name), reinterpret_cast<sockaddr*>(&peer), &length) == 0 &&
        peer.ss_family == AF_INET)
      ++count;
  }
  ::closedir(folder);
  return count;
}

// Links from the rig's sender to its receiver (there) and from there to here (back).
struct BothWays {
  int before = tcp_connections();
  Rig rig{{.name = "net"}};
  std::unique_ptr<transport::Endpoint> back_from, back_to;
  std::unique_ptr<Link> back_out, back_in;  // at the receiver, and at the sender
  Bytes to_sender, to_receiver, back_to_sender, back_to_receiver;

  ~BothWays() {
    for (const auto& [side, link] :
         {std::pair{&rig.receiver, back_out.get()}, std::pair{&rig.sender, back_in.get()}})
      if (link != nullptr) side->engine->remove(link);
  }
  // Up to what the ends tell each other. Not `both`: the receiver does not know of the other link.
  void describe(bool both) {
    rig.set_geometry({4096, 4}, {512, 4});
    rig.sender_spec.paired = true;
    rig.receiver_spec.paired = both;
    LinkSpec from = rig.receiver_spec, to = rig.sender_spec;
    from.direction = Direction::send;
    to.direction = Direction::recv;
    const auto open = [&](const LinkSpec& spec, Side& side) {
      auto endpoint = rig.row->open(spec, side.services);
      REQUIRE(endpoint);
      return std::move(*endpoint);
    };
    rig.sender.endpoint = open(rig.sender_spec, rig.sender);
    rig.receiver.endpoint = open(rig.receiver_spec, rig.receiver);
    back_from = open(from, rig.receiver);
    back_to = open(to, rig.sender);
    to_receiver = rig.sender.endpoint->describe(soon()).value();
    to_sender = rig.receiver.endpoint->describe(soon()).value();
    back_to_sender = back_from->describe(soon()).value();
    back_to_receiver = back_to->describe(soon()).value();
  }
  static std::unique_ptr<Link> connect(transport::Endpoint& endpoint, const Bytes& theirs) {
    auto link = endpoint.connect(theirs, soon());
    REQUIRE(link);
    return std::move(*link);
  }
  void connect_sends() {
    rig.sender.link = connect(*rig.sender.endpoint, to_sender);
    rig.sender.engine->add(rig.sender.link.get());
    back_out = connect(*back_from, back_to_receiver);
    rig.receiver.engine->add(back_out.get());
  }
  void connect_receiver() {
    rig.receiver.link = connect(*rig.receiver.endpoint, to_receiver);
    rig.receiver.engine->add(rig.receiver.link.get(), back_out.get());
  }
  void connect_sender() {
    back_in = connect(*back_to, back_to_sender);
    rig.sender.engine->add(back_in.get(), rig.sender.link.get());
  }
  void connect_all(bool both = true) {
    describe(both);
    connect_sends();
    connect_receiver();
    connect_sender();
  }
  int connections() const { return tcp_connections() - before; }
  bool has_error() { return rig.sender.has_error() || rig.receiver.has_error(); }
};

void fill(std::vector<uint8_t>& data, size_t bytes, uint64_t step) {
  data.resize(bytes);
  for (size_t i = 0; i < bytes; ++i) data[i] = uint8_t(i * 7 + step);
}

// Steps of every size from `from` to `to` beside each other; how many were wrong.
int move_steps(Link& from, Link& to, Protocol protocol) {
  int wrong = 0;
  std::thread producer([&] {
    std::vector<uint8_t> data;
    for (uint64_t step = 0; step < 300; ++step) {
      fill(data, step % 33 * 8, step);
      if (!put(*from.fifo(protocol), data, soon())) return;
    }
  });
  std::vector<uint8_t> data, got;
  for (uint64_t step = 0; step < 300; ++step) {
    fill(data, step % 33 * 8, step);
    got.assign(data.size(), 0xee);
    if (!take(*to.fifo(protocol), got, soon()) || got != data) ++wrong;
  }
  producer.join();
  return wrong;
}

int move_both_ways(BothWays& ways) {
  int wrong[4] = {};
  std::vector<std::thread> threads;
  for (const int i : {0, 1, 2, 3})
    threads.emplace_back([&, i] {
      const Protocol protocol = i % 2 == 0 ? Protocol::simple : Protocol::ll;
      wrong[i] = i < 2 ? move_steps(*ways.rig.sender.link, *ways.rig.receiver.link, protocol)
                       : move_steps(*ways.back_out, *ways.back_in, protocol);
    });
  for (std::thread& thread : threads) thread.join();
  return wrong[0] + wrong[1] + wrong[2] + wrong[3];
}

}  // namespace

TEST_CASE("connections of two ranks share a socket where both ends want it", "[joined]") {
  for (const bool both : {true, false}) {
    CAPTURE(both);
    BothWays ways;
    ways.connect_all(both);
    CHECK(move_both_ways(ways) == 0);
    CHECK(ways.connections() == (both ? 2 : 4));
    CHECK_FALSE(ways.has_error());
  }
}

TEST_CASE("what comes before an end has joined waits there", "[joined]") {
  BothWays ways;
  ways.describe(true);
  ways.connect_sends();
  ways.connect_receiver();
  std::vector<uint8_t> data, got(64);
  fill(data, 64, 3);
  REQUIRE(put(*ways.back_out->fifo(Protocol::simple), data, soon()));
  CHECK(test::wait_until_others_sleep());
  CHECK_FALSE(ways.has_error());
  ways.connect_sender();
  REQUIRE(take(*ways.back_in->fifo(Protocol::simple), got, soon()));
  CHECK(got == data);
  CHECK(move_steps(*ways.back_out, *ways.back_in, Protocol::ll) == 0);
  CHECK_FALSE(ways.has_error());
}

TEST_CASE("an end that has joined ends cleanly beside its peer", "[joined]") {
  BothWays ways;
  ways.connect_all();
  CHECK(move_both_ways(ways) == 0);
  for (Side* side : {&ways.rig.sender, &ways.rig.receiver}) side->engine->expect_close();
  ways.rig.close(Deadline::after_seconds(10));
  CHECK_FALSE(ways.has_error());
}

TEST_CASE("a peer that goes without a goodbye is lost to both of its connections", "[joined]") {
  BothWays ways;
  ways.connect_all();
  Side& gone = ways.rig.receiver;
  for (auto* link : {&gone.link, &ways.back_out}) {
    gone.engine->remove(link->get());
    link->reset();
  }
  const Deadline deadline = soon();
  const auto errors = [&] {
    const std::scoped_lock lock(ways.rig.sender.mutex);
    return ways.rig.sender.errors.size();
  };
  while (errors() < 2 && !deadline.passed()) base::yield_thread();
  REQUIRE(errors() == 2);
  for (const Error& error : ways.rig.sender.errors) {
    CHECK(error.code == ErrorCode::lost);
    CHECK(error.message.find("rank 5") != std::string::npos);
  }
}

}  // namespace joined_tests
