// The proxy engine: several links and block threads, hand-over between block threads and the
// engine's thread, idleness.
#include <time.h>

#include "tests/asleep.h"
#include "tests/catch.h"
#include "tests/unit/transport/block.h"

namespace engine_tests {

using namespace collctl;
using namespace collctl::test;

namespace {

constexpr int kChannels = 3;

// Two ranks with several channels in both directions, all on one engine each.
struct Pair {
  Rig base{{"net"}};
  std::vector<std::unique_ptr<Link>> links;
  Link* out[2][kChannels];  // [rank side][channel]
  Link* in[2][kChannels];

  Pair() {
    Side* sides[2] = {&base.sender, &base.receiver};
    for (int from = 0; from < 2; ++from)
      for (int channel = 0; channel < kChannels; ++channel) {
        Side &a = *sides[from], &b = *sides[1 - from];
        LinkSpec send{.channel = channel,
                      .direction = Direction::send,
                      .self = a.info,
                      .peer = b.info,
                      .geometry = {{4096, 4}, {1024, 4}, {}},
                      .purpose = 1};
        LinkSpec recv = send;
        recv.direction = Direction::recv;
        std::swap(recv.self, recv.peer);
        auto sender = base.row->open(send, a.services);
        auto receiver = base.row->open(recv, b.services);
        const Bytes from_sender = (*sender)->describe(soon()).value();
        const Bytes from_receiver = (*receiver)->describe(soon()).value();
        links.push_back((*sender)->connect(from_receiver, soon()).value());
        out[from][channel] = links.back().get();
        a.engine->add(links.back().get());
        links.push_back((*receiver)->connect(from_sender, soon()).value());
        in[1 - from][channel] = links.back().get();
        b.engine->add(links.back().get());
      }
  }
  ~Pair() {
    for (Side* side : {&base.sender, &base.receiver})
      for (auto& link : links) side->engine->remove(link.get());
  }
  runtime::ProxyEngine* engine(int side) {
    return side == 0 ? base.sender.engine.get() : base.receiver.engine.get();
  }
};

// Rounds of sending to and receiving from the other rank, as a ring of two does.
uint64_t exchange(Pair& pair, int side, int channel, Protocol protocol, int rounds, bool assisted) {
  const Waiting how{assisted ? pair.engine(side) : nullptr};
  Fifo& out = *pair.out[side][channel]->fifo(protocol);
  Fifo& in = *pair.in[side][channel]->fifo(protocol);
  std::vector<uint8_t> data, expected, got;
  uint64_t good = 0;
  for (int round = 0; round < rounds; ++round) {
    const size_t bytes = size_t(8 + (round * 40) % 480);
    pattern(data, bytes, uint64_t(round) * 2 + uint64_t(side));
    pattern(expected, bytes, uint64_t(round) * 2 + uint64_t(1 - side));
    got.assign(bytes, 0);
    if (!put(out, data, soon(), how) || !take(in, got, soon(), how)) break;
    good += got == expected ? 1 : 0;
  }
  if (assisted) pair.engine(side)->finish_operation();
  return good;
}

// How much of a core this process used since it was made: of the machine's time, which a loaded
// machine makes longer.
class CoreUse {
 public:
  double share() const { return double(cpu_ns() - cpu_) / double(base::machine_ns() - began_); }

 private:
  static int64_t cpu_ns() {
    timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return int64_t(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
  }
  int64_t cpu_ = cpu_ns(), began_ = base::machine_ns();
};

}  // namespace

TEST_CASE("several block threads share one engine") {
  for (const bool assisted : {true, false})
    for (const Protocol protocol : {Protocol::simple, Protocol::ll}) {
      constexpr int kRounds = 300;
      INFO("assisted " << assisted << " protocol " << int(protocol));
      Pair pair;
      uint64_t good[2][kChannels] = {};
      std::vector<std::thread> threads;
      for (int side = 0; side < 2; ++side)
        for (int channel = 0; channel < kChannels; ++channel)
          threads.emplace_back([&, side, channel] {
            // One channel never assists: whoever drives must wake it.
            good[side][channel] =
                exchange(pair, side, channel, protocol, kRounds, assisted && channel != 1);
          });
      for (std::thread& thread : threads) thread.join();
      for (int side = 0; side < 2; ++side)
        for (int channel = 0; channel < kChannels; ++channel) CHECK(good[side][channel] == kRounds);
      CHECK_FALSE(pair.base.sender.has_error());
      CHECK_FALSE(pair.base.receiver.has_error());
    }
}

TEST_CASE("what a block publishes last leaves although it waits for nothing any more") {
  Rig rig({"net"});
  REQUIRE(rig.open({65536, 8}, {}));
  std::vector<uint8_t> data, got(65536);
  for (uint64_t round = 0; round < 30; ++round) {
    pattern(data, 65536, round);
    rig.sender.engine->assist();  // the engine's thread keeps off for a while now
    for (int i = 0; i < 6; ++i) REQUIRE(put(*rig.out(Protocol::simple), data, soon()));
    if (round % 2 == 0) rig.sender.engine->finish_operation();
    if (round % 3 == 0) rig.sender.engine->hand_back();
    for (int i = 0; i < 6; ++i) {
      REQUIRE(take(*rig.in(Protocol::simple), got, soon()));
      CHECK(got == data);
    }
  }
}

TEST_CASE("an idle engine burns no core") {
  Pair pair;
  CHECK(exchange(pair, 0, 0, Protocol::simple, 0, true) == 0);
  CHECK(test::wait_until_others_sleep());
  const CoreUse use;
  // time is what is tested: the share of a core meanwhile
  base::sleep_until(Deadline::after_ms(1000));
  CHECK(use.share() < 0.3);
}

TEST_CASE("a block that sleeps driving the links burns no core and wakes for data") {
  Rig rig({"net"});
  REQUIRE(rig.open({4096, 4}, {}));
  std::vector<uint8_t> data, got(4096);
  pattern(data, 4096, 1);
  const CoreUse use;
  std::thread producer([&] {
    // time is what is tested: the share of a core meanwhile
    base::sleep_until(Deadline::after_ms(1000));
    put(*rig.out(Protocol::simple), data, soon());
  });
  const bool took = take(*rig.in(Protocol::simple), got, soon(), {rig.receiver.engine.get()});
  producer.join();
  REQUIRE(took);
  CHECK(got == data);
  CHECK(use.share() < 0.4);
}

TEST_CASE("an engine without a listener accepts nothing and still moves links") {
  auto engine = runtime::ProxyEngine::start(
      {.listen_at = {}, .secret = {}, .abort_word = nullptr, .on_error = nullptr});
  REQUIRE(engine);
  CHECK((*engine)->address().family() == 0);
  CHECK_FALSE((*engine)->assist());
  CHECK((*engine)->stop(soon()));
}

TEST_CASE("an engine that polls for GPUs leaves the core to others while nothing moves") {
  Rig rig({"net", 1, 0, true});  // both engines are told that an operation is under way
  REQUIRE(rig.open({4096, 4}, {}));
  // time is what is tested: the share of a core in what follows the start
  base::sleep_until(Deadline::after_ms(100));
  const CoreUse use;
  // time is what is tested: the share of a core meanwhile
  base::sleep_until(Deadline::after_ms(1000));
  // Two engines that never slept would take two seconds; a sanitizer makes each look dearer.
  CHECK(use.share() < 0.8);
  std::vector<uint8_t> data, got(4096);
  pattern(data, 4096, 1);
  REQUIRE(put(*rig.out(Protocol::simple), data, soon()));
  REQUIRE(take(*rig.in(Protocol::simple), got, soon()));
  CHECK(got == data);
}

TEST_CASE("what a GPU published last leaves when its operation is over") {
  Rig rig({"net", 1, 0, true});
  REQUIRE(rig.open({65536, 8}, {}));
  rig.receiver.engine->run_on_node(0);
  std::vector<uint8_t> data, got(65536);
  rig.sender.engine->busy(false);
  for (uint64_t round = 0; round < 30; ++round) {
    pattern(data, 65536, round);
    rig.sender.engine->busy(true);
    for (int i = 0; i < 6; ++i) REQUIRE(put(*rig.out(Protocol::simple), data, soon()));
    rig.sender.engine->busy(false);
    for (int i = 0; i < 6; ++i) {
      REQUIRE(take(*rig.in(Protocol::simple), got, soon()));
      CHECK(got == data);
    }
  }
}

}  // namespace engine_tests
