// The conformance suite: every row of the table must pass the same tests.
#include <random>

#include "tests/catch.h"
#include "tests/how_much.h"
#include "tests/unit/transport/block.h"

namespace conformance_tests {

using namespace collctl;
using namespace collctl::test;

namespace {

// The sizes of a run of steps: nothing, odd ones, around the border of the slot.
std::vector<uint32_t> sizes_for(const Fifo& fifo) {
  const uint32_t full = capacity(fifo);
  if (fifo.protocol == Protocol::ll) return {0, 8, 16, full - 8, full, 24, full / 2 / 8 * 8};
  return {0, 1, 7, 16, full / 2 + 3, full - 1, full, 5, full - 16};
}

// The last step is never empty, so that taking it proves that everything before it came.
uint32_t size_of_step(const std::vector<uint32_t>& sizes, uint64_t step, uint64_t steps) {
  const uint32_t size = sizes[(step * 5 + step / 7) % sizes.size()];
  return step + 1 == steps && size == 0 ? sizes[2] : size;
}

struct Outcome {
  uint64_t moved = 0;
  uint64_t wrong = 0;
};

Outcome send_steps(Fifo& fifo, uint64_t steps, Waiting how, uint32_t yield_seed = 0) {
  Outcome outcome;
  std::vector<uint8_t> data;
  const auto sizes = sizes_for(fifo);
  std::mt19937 random(yield_seed);
  for (uint64_t step = 0; step < steps; ++step) {
    pattern(data, size_of_step(sizes, step, steps), step);
    if (!put(fifo, data, soon(), how)) break;
    if (yield_seed != 0 && random() % 3 == 0) base::yield_thread();
    ++outcome.moved;
  }
  if (how.assist != nullptr) how.assist->finish_operation();
  return outcome;
}

Outcome receive_steps(Fifo& fifo, uint64_t steps, Waiting how, uint32_t yield_seed = 0) {
  Outcome outcome;
  std::vector<uint8_t> expected, got;
  const auto sizes = sizes_for(fifo);
  std::mt19937 random(yield_seed);
  for (uint64_t step = 0; step < steps; ++step) {
    pattern(expected, size_of_step(sizes, step, steps), step);
    got.assign(expected.size(), 0);
    if (!take(fifo, got, soon(), how)) break;
    if (got != expected) ++outcome.wrong;
    if (yield_seed != 0 && random() % 3 == 0) base::yield_thread();
    ++outcome.moved;
  }
  if (how.assist != nullptr) how.assist->finish_operation();
  return outcome;
}

void check_steps(Rig& rig, Protocol protocol, uint64_t steps, bool assisted, uint32_t seed = 0) {
  if (rig.gpus) assisted = false;
  const Waiting send_how{assisted ? rig.sender.engine.get() : nullptr};
  const Waiting recv_how{assisted ? rig.receiver.engine.get() : nullptr};
  Outcome sent, received;
  std::thread producer([&] { sent = send_steps(*rig.out(protocol), steps, send_how, seed); });
  received = receive_steps(*rig.in(protocol), steps, recv_how, seed);
  producer.join();
  CHECK(sent.moved == steps);
  CHECK(received.moved == steps);
  CHECK(received.wrong == 0);
  CHECK_FALSE(rig.sender.has_error());
  CHECK_FALSE(rig.receiver.has_error());
}

}  // namespace

TEST_CASE("steps arrive in order and whole, whatever their size") {
  Part part(Sweep::transport_steps);
  int number = 0;
  for (const RowSetting& setting : row_settings()) {
    ++number;
    for (const Protocol protocol : {Protocol::simple, Protocol::ll})
      for (const uint32_t slots : {2u, 8u})
        for (const bool assisted : {false, true}) {
          if (!part.takes({number, int(protocol), int(slots), assisted})) continue;
          INFO(setting.text() << " protocol " << int(protocol) << " slots " << slots << " assisted "
                              << assisted);
          Rig rig(setting);
          Status opened = rig.open({65536, slots}, {16384, slots});
          REQUIRE(opened);
          check_steps(rig, protocol, 130, assisted);  // every size twice
        }
  }
}

TEST_CASE("small slots, many steps, random yields") {
  for (const RowSetting& setting : row_settings())
    for (const Protocol protocol : {Protocol::simple, Protocol::ll}) {
      INFO(setting.text() << " protocol " << int(protocol));
      Rig rig(setting);
      REQUIRE(rig.open({128, 2}, {64, 2}));
      check_steps(rig, protocol, uint64_t(how_much(Sweep::transport_small_steps)), true, 11);
    }
}

TEST_CASE("one slot is enough for a transport") {
  for (const RowSetting& setting : row_settings()) {
    INFO(setting.text());
    Rig rig(setting);
    REQUIRE(rig.open({4096, 1}, {256, 1}));
    const auto steps = uint64_t(share(Sweep::transport_small_steps, 200));
    check_steps(rig, Protocol::simple, steps, false);
    check_steps(rig, Protocol::ll, steps, false);
  }
}

TEST_CASE("slots larger than any socket buffer") {
  for (const RowSetting& setting : row_settings()) {
    INFO(setting.text());
    Rig rig(setting);
    REQUIRE(rig.open({8u << 20, 2}, {}));
    CHECK(rig.out(Protocol::ll) == nullptr);
    check_steps(rig, Protocol::simple, nightly() ? 12 : 4, false);
  }
}

TEST_CASE("both protocols of one connection do not hold each other up") {
  for (const RowSetting& setting : row_settings()) {
    INFO(setting.text());
    Rig rig(setting);
    REQUIRE(rig.open({4096, 4}, {1024, 4}));
    // Simple is left full on purpose; LL still flows.
    std::vector<uint8_t> data, got;
    pattern(data, 4096, 1);
    while (put(*rig.out(Protocol::simple), data, Deadline::after_ms(100))) {
    }
    check_steps(rig, Protocol::ll, 100, false);
    got.resize(4096);
    REQUIRE(take(*rig.in(Protocol::simple), got, soon()));
    CHECK(got == data);
  }
}

TEST_CASE("a producer without a consumer is held back, and goes on when slots are freed") {
  for (const RowSetting& setting : row_settings())
    for (const Protocol protocol : {Protocol::simple, Protocol::ll}) {
      constexpr uint32_t kSlots = 4;
      INFO(setting.text() << " protocol " << int(protocol));
      Rig rig(setting);
      REQUIRE(rig.open({1024, kSlots}, {1024, kSlots}));
      std::vector<uint8_t> data, got(64);
      uint64_t put_steps = 0;
      for (; put_steps < 100; ++put_steps) {
        pattern(data, 64, put_steps);
        if (!put(*rig.out(protocol), data, Deadline::after_ms(150))) break;
      }
      // A network connection has slots at both ends, and sockets keep little that comes early.
      const bool staged = std::string_view(setting.name) == "net";
      const bool keeps = staged && setting.fabric.empty() && setting.plugin.empty();
      CHECK(put_steps >= kSlots);
      CHECK(put_steps <= (keeps ? 5 * kSlots : staged ? 2 * kSlots : kSlots));
      for (uint64_t step = 0; step < put_steps; ++step) {
        pattern(data, 64, step);
        REQUIRE(take(*rig.in(protocol), got, soon()));
        CHECK(got == data);
      }
      for (uint64_t step = put_steps; step < put_steps + 20; ++step) {
        pattern(data, 64, step);
        REQUIRE(put(*rig.out(protocol), data, soon()));
        REQUIRE(take(*rig.in(protocol), got, soon()));
        CHECK(got == data);
      }
    }
}

TEST_CASE("a peer that stalls is neither data nor an error") {
  for (const RowSetting& setting : row_settings()) {
    INFO(setting.text());
    Rig rig(setting);
    REQUIRE(rig.open({1024, 4}, {1024, 4}));
    std::vector<uint8_t> data(100, 7), got(100);
    CHECK_FALSE(take(*rig.in(Protocol::simple), got, Deadline::after_ms(120)));
    CHECK_FALSE(
        take(*rig.in(Protocol::simple), got, Deadline::after_ms(120), {rig.receiver.engine.get()}));
    CHECK_FALSE(rig.sender.has_error());
    CHECK_FALSE(rig.receiver.has_error());
    REQUIRE(put(*rig.out(Protocol::simple), data, soon()));
    REQUIRE(take(*rig.in(Protocol::simple), got, soon()));
    CHECK(got == data);
  }
}

TEST_CASE("blobs that lie are refused") {
  for (const RowSetting& setting : row_settings()) {
    INFO(setting.text());
    for (const bool at_sender : {true, false}) {
      Rig probe(setting);
      probe.set_geometry({1024, 4}, {});
      auto endpoint = probe.row->open(at_sender ? probe.receiver_spec : probe.sender_spec,
                                      at_sender ? probe.receiver.services : probe.sender.services);
      REQUIRE(endpoint);
      auto blob = (*endpoint)->describe(soon());
      REQUIRE(blob);
      std::mt19937 random(3);
      for (size_t length = 0; length <= blob->size() + 8; ++length) {
        if (!nightly() && length % 7 != 0 && length + 1 < blob->size()) continue;
        Bytes lie(*blob);
        if (length < blob->size()) {
          lie.resize(length);
        } else {
          for (uint8_t& byte : lie) byte = uint8_t(random());
        }
        auto mine = probe.row->open(at_sender ? probe.sender_spec : probe.receiver_spec,
                                    at_sender ? probe.sender.services : probe.receiver.services);
        REQUIRE(mine);
        if (!at_sender) REQUIRE((*mine)->describe(soon()));
        auto link = (*mine)->connect(lie, Deadline::after_ms(300));
        REQUIRE_FALSE(link);
        CHECK(link.error().rank == (at_sender ? 5 : 2));
      }
    }
  }
}

TEST_CASE("ends that disagree about buffers are told so") {
  for (const RowSetting& setting : row_settings()) {
    INFO(setting.text());
    Rig rig(setting);
    rig.set_geometry({1024, 4}, {});
    rig.receiver_spec.geometry[int(Protocol::simple)].slot_bytes = 2048;
    Status wired = rig.wire(soon());
    REQUIRE_FALSE(wired);
    CHECK(wired.error().code == ErrorCode::usage);
    CHECK(wired.error().chain().find("rank 2 -> rank 5") != std::string::npos);
  }
}

TEST_CASE("impossible buffers are refused before anything is made") {
  for (const RowSetting& setting : row_settings()) {
    Rig rig(setting);
    for (const transport::FifoGeometry bad :
         {transport::FifoGeometry{0, 0}, transport::FifoGeometry{1024, 0},
          transport::FifoGeometry{1000, 4}, transport::FifoGeometry{1024, 1u << 20}}) {
      rig.set_geometry(bad, {});
      auto endpoint = rig.row->open(rig.sender_spec, rig.sender.services);
      REQUIRE_FALSE(endpoint);
      CHECK(endpoint.error().code == ErrorCode::usage);
    }
  }
}

}  // namespace conformance_tests
