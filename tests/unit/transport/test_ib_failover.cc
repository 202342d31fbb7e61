// Failover of NET/IB where the receive end is behind: its adapter has acknowledged messages by a
// port that then fails, and the end has not taken their completions yet. They count as sent, so
// they have to count as received. Both ends are driven by the test alone, so that it decides who
// looks when.
#ifdef COLLCTL_HAVE_FABRIC
#include <poll.h>

#include "tests/unit/transport/ib_transfer.h"

namespace ib_failover_tests {

using namespace collctl;
using namespace collctl::test;
using fake_verbs::FaultKind;

namespace {

// More completions of each port than one look takes (128).
constexpr uint32_t kSlots = 1024, kBytes = 48;
constexpr uint64_t kUntaken = 800;

struct Pair {
  Rig rig;
  uint32_t slots;
  std::unique_ptr<transport::Endpoint> sender, receiver;
  std::unique_ptr<Link> out, in;
  uint64_t sent = 0, arrived = 0;

  explicit Pair(const RowSetting& setting, uint32_t slot_count = kSlots)
      : rig(setting), slots(slot_count) {
    rig.set_geometry({kBytes, slots}, {});
    sender = std::move(rig.row->open(rig.sender_spec, rig.sender.services).value());
    receiver = std::move(rig.row->open(rig.receiver_spec, rig.receiver.services).value());
    const Bytes of_sender = sender->describe(soon()).value();
    const Bytes of_receiver = receiver->describe(soon()).value();
    out = std::move(sender->connect(of_receiver, soon()).value());
    in = std::move(receiver->connect(of_sender, soon()).value());
  }
  void send(uint64_t messages) {
    Fifo& fifo = *out->fifo(Protocol::simple);
    for (const uint64_t end = sent + messages; sent < end; ++sent) {
      const uint64_t index = sent % slots;
      std::memset(fifo.slots + index * kBytes, int(sent % 251), kBytes);
      fifo.records[index].bytes = kBytes;
    }
    publish(fifo.tail, sent, nullptr, -1);
  }
  uint64_t over() { return load64(out->fifo(Protocol::simple)->head); }
  // As the driver does between sleeps, so that each look is at all there is.
  void look(Link& link) {
    link.disarm();
    const auto moved = link.progress();
    INFO((moved ? "" : moved.error().chain()));
    REQUIRE(moved);
  }
  // Takes the messages that have come by now, each once and in order; without freeing the slots.
  void read() {
    Fifo& fifo = *in->fifo(Protocol::simple);
    for (const uint64_t end = load64(fifo.tail); arrived < end; ++arrived) {
      const uint8_t* data = fifo.slots + arrived % slots * kBytes;
      if (!std::all_of(data, data + kBytes, [&](uint8_t b) { return b == arrived % 251; }))
        FAIL("message " << arrived << " is wrong");
    }
  }
  void free_slots(uint64_t below) { publish(in->fifo(Protocol::simple)->head, below, nullptr, -1); }
  void take() {
    read();
    free_slots(arrived);
  }
  void look_at_both(int times) {
    for (int i = 0; i < times; ++i) {
      look(*in);
      look(*out);
    }
  }
  // The sender has sent something over the TCP connection, the last of a link's descriptors.
  bool told() {
    std::vector<pollfd> fds;
    in->add_interest(fds);
    return ::poll(&fds.back(), 1, 0) == 1;
  }
};

RowSetting two_ports() {
  RowSetting setting = ib_fabric({{"COLLCTL_IB_MERGE_NICS", "1"},
                                  {"COLLCTL_IB_PORT_FAILOVER", "1"},
                                  {"COLLCTL_IB_PORT_DOWN_TIMEOUT", "0.02"}});
  setting.fabric = "fake_0:ib:ports=2";
  return setting;
}

// So many messages that the receive end has not looked at.
void send_unseen(Pair& pair, Deadline end) {
  // All slots are allowed to the sender before the receive end looks away.
  pair.look_at_both(4);
  pair.send(kUntaken);
  while (pair.over() < kUntaken && !end.passed()) pair.look(*pair.out);
  REQUIRE(pair.over() == kUntaken);
}

// All that was sent, and then more, round the slots, over what is left.
void check_goes_on(Pair& pair, Deadline end) {
  while (pair.arrived < pair.sent && !end.passed()) {
    pair.look(*pair.in);
    pair.take();
    pair.look(*pair.out);
  }
  REQUIRE(pair.arrived == pair.sent);
  const uint64_t all = pair.sent + 3 * kSlots;
  while (pair.arrived < all && !end.passed()) {
    if (pair.sent < all && pair.sent - pair.over() < kSlots) pair.send(1);
    pair.look(*pair.out);
    pair.look(*pair.in);
    pair.take();
  }
  REQUIRE(pair.arrived == all);
}

}  // namespace

TEST_CASE("IB failover: what a dead port has acknowledged arrives, though nobody had looked",
          "[ib][failover]") {
  for (const int port : {1, 2})
    for (const FaultKind kind : {FaultKind::kDrop, FaultKind::kAckLost}) {
      INFO("port " << port
                   << (kind == FaultKind::kDrop ? ": nothing gets through"
                                                : ": all arrives, unheard"));
      Pair pair(two_ports());
      const Deadline end = soon();
      send_unseen(pair, end);
      const int fault =
          fake_verbs::add_fault({.kind = kind, .port = port, .times = 0, .value = 1000});
      pair.send(2);  // one by each port
      while (!pair.told() && !end.passed()) pair.look(*pair.out);
      REQUIRE(pair.told());
      CHECK(fake_verbs::hits(fault) > 0);
      // Now the receive end hears of the port, and has more to take than it takes at once.
      check_goes_on(pair, end);
    }
}

TEST_CASE("IB failover: the same where the receive end sees its port go down", "[ib][failover]") {
  for (const int port : {1, 2}) {
    INFO("port " << port);
    Pair pair(two_ports());
    const Deadline end = soon();
    send_unseen(pair, end);
    fake_verbs::set_port("fake_0", port, false);
    // time is what is tested: a port may be down for so long, and its event comes meanwhile
    base::sleep_until(Deadline::after_ms(200));
    pair.look(*pair.in);
    pair.send(2);
    check_goes_on(pair, end);
    fake_verbs::set_port("fake_0", port, true);
  }
}

// The receive end holds slots while its port dies, so that it tells of the rest again only later:
// never of more than there are.
TEST_CASE("IB failover: entries told again are a window at most", "[ib][failover]") {
  constexpr uint32_t kFew = 8;
  Pair pair(two_ports(), kFew);
  const Deadline end = soon();
  const auto until_arrived = [&](uint64_t messages) {
    while (pair.arrived < messages && !end.passed()) {
      pair.look_at_both(1);
      pair.read();
    }
    REQUIRE(pair.arrived == messages);
  };
  pair.look_at_both(4);  // told of 8
  pair.send(5);
  until_arrived(5);
  pair.free_slots(5);
  pair.look_at_both(4);  // of 13
  pair.send(5);
  until_arrived(10);
  pair.free_slots(10);
  pair.look_at_both(4);  // of 18
  pair.send(5);
  until_arrived(15);
  fake_verbs::set_port("fake_0", 1, false);
  // time is what is tested: a port may be down for so long, and its event comes meanwhile
  base::sleep_until(Deadline::after_ms(200));
  pair.look_at_both(8);  // the port is lost: 15 to 17 are to be told again, too few by themselves
  fake_verbs::clear_posted();
  pair.send(3);
  until_arrived(18);
  pair.free_slots(18);
  pair.look_at_both(4);
  uint64_t told = 0;
  for (const fake_verbs::Posted& p : fake_verbs::posted())
    if (p.opcode != 0xff && p.bytes % 32 == 0) told += p.bytes / 32;
  CHECK(told == kFew);
  fake_verbs::set_port("fake_0", 1, true);
}

}  // namespace ib_failover_tests

#endif
