// NET/IB's requests to its adapters: which requests, of which bytes, on how many ports and channels
// at once, and within which limits. Read from the fabric's log of posts (tests/fake_verbs).
#ifdef COLLCTL_HAVE_FABRIC
#include <algorithm>
#include <memory>
#include <set>
#include <vector>

#include "tests/unit/transport/ib_transfer.h"

namespace ib_posts_tests {

using namespace collctl;
using namespace collctl::test;
using fake_verbs::FaultKind;

TEST_CASE("IB posts: data goes from the sender's slots to the receiver's, each byte once") {
  Rig rig(ib_fabric());
  REQUIRE(rig.open({kIbBytes, kIbSlots}, {}));
  fake_verbs::clear_posted();
  IbOutcome out;
  transfer(rig, 0, kIbMessages, out);
  REQUIRE(out.arrived == kIbMessages);
  const auto slots_of = [](const Fifo& fifo) { return reinterpret_cast<uint64_t>(fifo.slots); };
  uint64_t bytes = 0, number = 0;
  for (const fake_verbs::Posted& p : fake_verbs::posted()) {
    if (p.opcode != 0 || p.bytes != kIbBytes) continue;  // entries of clear-to-send, immediates
    const uint64_t offset = number++ % kIbSlots * kIbBytes;
    CHECK(p.address == slots_of(*rig.out(Protocol::simple)) + offset);
    CHECK(p.remote_address == slots_of(*rig.in(Protocol::simple)) + offset);
    bytes += p.bytes;
  }
  CHECK(bytes == uint64_t(kIbBytes) * kIbMessages);
}

namespace {
// Milliseconds of 8 messages of 20,000 bytes through so many ports of 0.5 MB/s each.
double ms_through(int ports, bool split) {
  RowSetting setting = ib_fabric(
      {{"COLLCTL_IB_MERGE_NICS", "1"}, {"COLLCTL_IB_SPLIT_DATA_ON_QPS", split ? "1" : "0"}});
  setting.fabric = "fake_0:ib:ports=" + std::to_string(ports);
  Rig rig(setting);
  REQUIRE(rig.open({kIbBytes, kIbSlots}, {}));
  // Both ends share the ports: entries of clear-to-send do not queue behind data that goes the
  // other way.
  fake_verbs::add_fault(
      {.kind = FaultKind::kBandwidth, .times = 0, .min_bytes = 1000, .value = 500'000});
  IbOutcome out;
  const int64_t start = base::now_ns();
  transfer(rig, 0, 8, out);
  REQUIRE(out.arrived == 8);
  return double(base::now_ns() - start) * 1e-6;
}
}  // namespace

TEST_CASE("IB ports overlap: two of 0.5 MB/s take half the time of one") {
  // 320 ms and 160 ms. A machine that has no time for the test makes both longer: again, then.
  CHECK(ms_through(1, false) > 310);
  for (const bool split : {false, true}) {
    double best = 1e9;
    for (int i = 0; i < 5 && best >= 250; ++i) best = std::min(best, ms_through(2, split));
    INFO("split " << split);
    CHECK(best < 250);
  }
}

namespace {
// Both ends of one channel's link, driven by the test alone.
struct Channel {
  std::unique_ptr<transport::Endpoint> sender, receiver;
  std::unique_ptr<Link> out, in;
  Channel(Rig& rig, int number) {
    LinkSpec from = rig.sender_spec, to = rig.receiver_spec;
    from.channel = to.channel = number;
    sender = std::move(rig.row->open(from, rig.sender.services).value());
    receiver = std::move(rig.row->open(to, rig.receiver.services).value());
    const Bytes of_sender = sender->describe(soon()).value();
    const Bytes of_receiver = receiver->describe(soon()).value();
    out = std::move(sender->connect(of_receiver, soon()).value());
    in = std::move(receiver->connect(of_sender, soon()).value());
  }
  void move() {
    REQUIRE(in->progress());
    REQUIRE(out->progress());
  }
  bool arrived() { return load64(in->fifo(Protocol::simple)->tail) != 0; }
};
}  // namespace

// Entries of half a window go at once, inline; that they have gone is not told each time.
TEST_CASE("IB posts: what small messages cost besides themselves") {
  constexpr uint32_t kSlots = 8, kBytes = 8;
  constexpr int kMessages = 64;
  Rig rig(ib_fabric());
  rig.set_geometry({4096, kSlots}, {});
  Channel channel(rig, 0);
  Fifo &out = *channel.out->fifo(Protocol::simple), &in = *channel.in->fifo(Protocol::simple);
  std::memset(out.slots, 1, size_t(out.slot_bytes) * out.slot_count);
  channel.move();
  channel.move();
  fake_verbs::clear_posted();
  const Deadline deadline = soon();
  for (int i = 0; i < kMessages; ++i) {
    out.records[out.step % kSlots].bytes = kBytes;
    publish(out.tail, ++out.step, nullptr, -1);
    while (load64(in.tail) <= in.step && !deadline.passed()) channel.move();
    publish(in.head, ++in.step, nullptr, -1);
  }
  REQUIRE_FALSE(deadline.passed());
  int messages = 0, entries = 0, told = 0;
  for (const fake_verbs::Posted& p : fake_verbs::posted()) {
    if (p.opcode == 0xff) continue;
    if (p.bytes == kBytes) {
      ++messages;
      continue;
    }
    CHECK(p.inlined);
    CHECK(p.bytes <= 128);
    ++entries;
    told += p.signaled ? 1 : 0;
  }
  CHECK(messages == kMessages);
  CHECK(entries <= kMessages / 4 + 1);
  CHECK(told <= entries / 2);
}

TEST_CASE("IB channels overlap: each has its message on the wire before any has arrived") {
  constexpr int kChannels = 4;
  Rig rig(ib_fabric());
  rig.set_geometry({kIbBytes, kIbSlots}, {});
  std::vector<std::unique_ptr<Channel>> channels;
  for (int c = 0; c < kChannels; ++c) channels.push_back(std::make_unique<Channel>(rig, c));
  for (int i = 0; i < 2; ++i)  // entries of clear-to-send go, and come
    for (auto& channel : channels) channel->move();
  // From now on data takes a tenth of a second.
  fake_verbs::add_fault(
      {.kind = FaultKind::kDelay, .times = 0, .min_bytes = kIbBytes, .us = 100'000});
  fake_verbs::clear_posted();
  for (auto& channel : channels) {
    Fifo& fifo = *channel->out->fifo(Protocol::simple);
    std::memset(fifo.slots, 1, kIbBytes);
    fifo.records[0].bytes = kIbBytes;
    publish(fifo.tail, ++fifo.step, nullptr, -1);
    REQUIRE(channel->out->progress());
  }
  std::set<uint32_t> pairs;
  for (const fake_verbs::Posted& p : fake_verbs::posted())
    if (p.bytes == kIbBytes) pairs.insert(p.queue_pair);
  CHECK(pairs.size() == kChannels);
  // No receive end has been looked at since, so none of them waited for another's message.
  for (auto& channel : channels) CHECK(!channel->arrived());
  const Deadline end = soon();
  const auto all_there = [&] {
    return std::all_of(channels.begin(), channels.end(),
                       [](auto& each) { return each->arrived(); });
  };
  while (!all_there() && !end.passed())
    for (auto& channel : channels) channel->move();
  CHECK(all_there());
  for (auto& channel : channels) {
    const Fifo& fifo = *channel->in->fifo(Protocol::simple);
    CHECK(std::all_of(fifo.slots, fifo.slots + kIbBytes, [](uint8_t byte) { return byte == 1; }));
  }
}

TEST_CASE("IB limits: adapters that take less than most") {
  for (const char* limits :
       {"fake_0:ib:message=4096", "fake_0:ib:inline=0", "fake_0:roce:message=1000:mtu=256"}) {
    INFO(limits);
    RowSetting setting = ib_fabric();
    setting.fabric = limits;
    Rig rig(setting);
    const IbOutcome out = run(rig, [] {});
    INFO(out.text());
    CHECK(out.right);
  }
}

TEST_CASE("IB posts: large messages as a write and an empty immediate, small ones as one write") {
  struct Row {
    uint32_t bytes;
    bool apart;
  };
  // The threshold of NCCL: above 8192 bytes.
  for (const Row& row : {Row{8192, false}, Row{8193, true}}) {
    INFO(row.bytes << " bytes");
    Rig rig(ib_fabric());
    REQUIRE(rig.open({kIbBytes, kIbSlots}, {}));
    fake_verbs::clear_posted();
    std::vector<uint8_t> data(row.bytes, 7), got(row.bytes);
    for (int i = 0; i < 5; ++i) {
      REQUIRE(put(*rig.out(Protocol::simple), data, soon()));
      REQUIRE(take(*rig.in(Protocol::simple), got, soon()));
      CHECK(got == data);
    }
    std::vector<fake_verbs::Posted> sent;
    for (const fake_verbs::Posted& p : fake_verbs::posted())
      if (p.opcode != 0xff && (p.bytes > 64 * kIbSlots || p.bytes == 0)) sent.push_back(p);
    // ibv_wr_opcode: 0 write, 1 write with immediate.
    REQUIRE(sent.size() == (row.apart ? 10 : 5));
    for (size_t i = 0; i < sent.size(); ++i) {
      const bool announces = !row.apart || i % 2 == 1;
      CHECK(int(sent[i].opcode) == (announces ? 1 : 0));
      CHECK(sent[i].bytes == (row.apart && announces ? 0 : row.bytes));
      CHECK(sent[i].signaled == announces);
    }
  }
}

}  // namespace ib_posts_tests

#endif
