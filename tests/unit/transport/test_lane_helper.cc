// Connections by sockets with helper threads: small messages go by the driver, large ones by a
// helper, and the lanes change hands in whatever order they come.
#include <random>
#include <thread>

#include "tests/catch.h"
#include "tests/unit/transport/block.h"

namespace lane_helper_tests {

using namespace collctl;
using namespace collctl::test;

TEST_CASE("lanes change hands between the driver and a helper, and nothing is lost", "[net]") {
  constexpr uint32_t kMost = 256 << 10, kSlots = 4;
  for (const RowSetting& setting : {RowSetting{.name = "net", .helpers = 1},
                                    RowSetting{.name = "net", .sockets = 3, .helpers = 2},
                                    RowSetting{.name = "net", .helpers = 1, .macs = true}}) {
    INFO(setting.text());
    Rig rig(setting);
    REQUIRE(rig.open({kMost, kSlots}, {1024, kSlots}));
    std::mt19937 draw(7);
    std::vector<uint8_t> data, got;
    uint64_t step = 0;
    for (int turn = 0; turn < 60; ++turn) {
      // Several under way at once, of which any may be the large one.
      std::vector<size_t> sizes;
      for (uint32_t i = 0; i <= draw() % kSlots; ++i)
        sizes.push_back(draw() % 3 == 0 ? (64 << 10) - 1 + draw() % (192 << 10) : draw() % 3000);
      const uint64_t first = step;
      for (const size_t bytes : sizes) {
        pattern(data, bytes, step++);
        REQUIRE(put(*rig.out(Protocol::simple), data, soon()));
      }
      for (size_t i = 0; i < sizes.size(); ++i) {
        pattern(data, sizes[i], first + i);
        got.assign(sizes[i], 0xEE);
        REQUIRE(take(*rig.in(Protocol::simple), got, soon()));
        REQUIRE(got == data);
      }
      if (turn % 3 == 0)
        // time is what is tested: enough for a helper to give its lanes back, or just about
        std::this_thread::sleep_for(std::chrono::microseconds(500 + draw() % 4000));
    }
    CHECK_FALSE(rig.sender.has_error());
    CHECK_FALSE(rig.receiver.has_error());
  }
}

}  // namespace lane_helper_tests
