// How far a sender over sockets may be ahead of its receiver: by number, by bytes, and that no
// mixture of sizes leaves it waiting for a credit that nobody will tell.
#include "tests/catch.h"
#include "tests/unit/transport/block.h"

namespace credit_tests {

using namespace collctl;
using namespace collctl::test;

namespace {

constexpr uint32_t kSlots = 4, kLarge = 48 << 10;

std::vector<RowSetting> settings() {
  return {{.name = "net"}, {.name = "net", .sockets = 3, .helpers = 2}};
}

// Messages that go out while nobody takes any.
uint64_t sent_ahead(Rig& rig, size_t bytes) {
  std::vector<uint8_t> data;
  uint64_t sent = 0;
  for (; sent < 100; ++sent) {
    pattern(data, bytes, sent);
    if (!put(*rig.out(Protocol::simple), data, Deadline::after_ms(200))) break;
  }
  return sent;
}

void take_all(Rig& rig, uint64_t messages, size_t bytes) {
  std::vector<uint8_t> data, got(bytes);
  for (uint64_t step = 0; step < messages; ++step) {
    pattern(data, bytes, step);
    REQUIRE(take(*rig.in(Protocol::simple), got, soon()));
    REQUIRE(got == data);
  }
}

}  // namespace

TEST_CASE("small messages may be far ahead, large ones by the slots of the receiver", "[credit]") {
  for (const RowSetting& setting : settings())
    for (const auto& [bytes, most] : {std::pair<size_t, uint64_t>{8, 4 * kSlots},
                                      {9000, 8},  // 64 KiB and the one that goes over it
                                      {kLarge, kSlots}}) {
      INFO(setting.text() << ", " << bytes << " bytes");
      Rig rig(setting);
      REQUIRE(rig.open({kLarge, kSlots}, {1024, kSlots}));
      // And what fills the sender's own slots.
      const uint64_t sent = sent_ahead(rig, bytes);
      CHECK(sent == most + kSlots);
      take_all(rig, sent, bytes);
      CHECK_FALSE(rig.sender.has_error());
      CHECK_FALSE(rig.receiver.has_error());
    }
}

TEST_CASE("whatever was taken without a credit leaves room for any message", "[credit]") {
  for (const RowSetting& setting : settings()) {
    INFO(setting.text());
    Rig rig(setting);
    REQUIRE(rig.open({kLarge, kSlots}, {1024, kSlots}));
    std::vector<uint8_t> data, got;
    uint64_t step = 0;
    const auto pass = [&](size_t bytes) {
      pattern(data, bytes, step++);
      got.assign(bytes, 0xEE);
      REQUIRE(put(*rig.out(Protocol::simple), data, soon()));
      REQUIRE(take(*rig.in(Protocol::simple), got, soon()));
      REQUIRE(got == data);
    };
    for (int small = 0; small <= 4 * int(kSlots) + 1; ++small)
      for (const size_t bytes : {size_t(0), size_t(8), size_t(3000), size_t(20'000)}) {
        for (int i = 0; i < small; ++i) pass(bytes);
        for (int i = 0; i < 3; ++i) pass(kLarge);
      }
  }
}

}  // namespace credit_tests
