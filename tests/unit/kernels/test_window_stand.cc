// Where a rank's window kernels stand, as far as its memory and its peers' can be read.
#include "kernels/cuda/window_stand.h"

#include <cstring>
#include <vector>

#include "kernels/cuda/window_layout.h"
#include "tests/catch.h"

namespace window_stand_tests {

using namespace collctl::kernels::cuda;

TEST_CASE("nothing is said of where window kernels stand when a read fails, whichever it is") {
  const uint64_t part = window_layout(2).total;
  std::vector<uint8_t> memory(2 * part);
  const PeerMemory peers{.base = memory.data(), .stride = part, .rank = 0, .nranks = 2};
  int reads = 0, failing = -1;
  const ReadMemory read = [&](std::span<const MemoryRead> list) {
    if (reads++ == failing) return false;
    for (const MemoryRead& one : list) std::memcpy(one.to, one.from, one.bytes);
    return true;
  };
  WindowStand stand;
  REQUIRE(window_stand(peers, read, stand));
  CHECK_FALSE(stand.inside);
  const int all = reads;
  CHECK(all >= 4);
  for (failing = 0; failing < all; ++failing) {
    INFO("read " << failing);
    reads = 0;
    CHECK_FALSE(window_stand(peers, read, stand));
    CHECK(reads == failing + 1);
  }
}

// Reads before and after an operation that ends meanwhile are of two operations.
TEST_CASE("nothing is said of where window kernels stand when one ends while it is read") {
  const WindowLayout layout = window_layout(2);
  std::vector<uint8_t> memory(2 * layout.total);
  const PeerMemory peers{.base = memory.data(), .stride = layout.total, .rank = 0, .nranks = 2};
  int reads = 0;
  const ReadMemory read = [&](std::span<const MemoryRead> list) {
    for (const MemoryRead& one : list) std::memcpy(one.to, one.from, one.bytes);
    const std::vector<uint64_t> ended(kWindowBlocks, 1);
    if (++reads == 1)
      std::memcpy(memory.data() + layout.epochs, ended.data(), kWindowBlocks * sizeof(uint64_t));
    return true;
  };
  WindowStand stand;
  CHECK_FALSE(window_stand(peers, read, stand));
  CHECK(window_stand(peers, read, stand));
  CHECK(stand.ended == 1);
}

}  // namespace window_stand_tests
