// The slots that a GPU's kernel leaves in a fifo of LL for the network come without a fence: tail,
// record and lines in any order. Nothing goes out before all of it is there, and then just that.
#include <algorithm>
#include <array>

#include "runtime/links/proxy.h"
#include "tests/catch.h"
#include "tests/unit/transport/block.h"
#include "tests/unit/transport/rig.h"

namespace late_lines_tests {

using namespace collctl;
using namespace collctl::test;

TEST_CASE("a step of LL leaves when tail, record and all lines are there, in any order") {
  constexpr uint32_t kLines = 4, kBytes = 8 * kLines;
  Rig rig({.name = "net"});
  REQUIRE(rig.open({4096, 2}, {256, 2}));
  Fifo &out = *rig.out(Protocol::ll), &in = *rig.in(Protocol::ll);
  rig.sender.engine->busy(true);  // as while a GPU works
  enum Part { tail, record, lines, last_half };
  std::array<Part, 4> order{tail, record, lines, last_half};
  uint8_t got[kBytes];
  do {
    const uint64_t step = out.step;
    const uint32_t index = uint32_t(step % out.slot_count), flag = uint32_t(step + 1);
    auto* const halves = reinterpret_cast<uint64_t*>(out.slots + size_t(index) * out.slot_bytes);
    // Data that looks like the flag of what comes next in this slot.
    const uint64_t data = flag + out.slot_count;
    const auto put_half = [&](uint32_t i) {
      std::atomic_ref(halves[i]).store(uint64_t(flag) << 32 | data, std::memory_order_relaxed);
    };
    for (size_t i = 0; i < order.size(); ++i) {
      switch (order[i]) {
        case tail:
          publish(out.tail, step + 1, nullptr, -1);
          break;
        case record: {
          const kernels::SlotRecord said{.bytes = 16 * kLines, .mark = flag};
          std::atomic_ref(reinterpret_cast<uint64_t&>(out.records[index]))
              .store(std::bit_cast<uint64_t>(said));
          break;
        }
        case lines:
          for (uint32_t half = 0; half < 2 * kLines - 1; ++half) put_half(half);
          break;
        case last_half:
          put_half(2 * kLines - 1);
      }
      if (i + 1 == order.size()) break;
      // time is what is tested: parts of a line that come one after the other
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      CHECK(load64(in.tail) == step);
    }
    ++out.step;
    REQUIRE(take(in, got, soon()));
    for (uint32_t i = 0; i < kBytes / 4; ++i) {
      uint32_t word;
      std::memcpy(&word, got + 4 * i, sizeof word);
      CHECK(word == uint32_t(data));
    }
  } while (std::next_permutation(order.begin(), order.end()));
  rig.sender.engine->busy(false);
  CHECK_FALSE(rig.sender.has_error());
}

}  // namespace late_lines_tests
