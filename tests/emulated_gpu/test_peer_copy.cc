// Copies and chases between GPUs: every byte arrives and none beside it, and a chase ends where its
// chain leads.
#include <cstring>
#include <vector>

#include "kernels/cuda/peer_copy.h"
#include "tests/catch.h"
#include "tests/emulated_gpu/machine.h"

using namespace collctl::kernels::cuda;

namespace {

struct alignas(16) Line {
  uint8_t bytes[16];
};

}  // namespace

TEST_CASE("emulated GPU: a copy by kernels is whole at any size", "[peer_copy]") {
  emulated::machine().behave({.seed = 2});
  // The last: all threads with all loads that they keep under way, and some more.
  for (const size_t packs : {size_t(1), size_t(513), size_t(4 * 132 * 2 * 512 + 5)}) {
    std::vector<Line> from(packs + 1), to(packs + 1);
    auto* bytes = reinterpret_cast<uint8_t*>(from.data());
    for (size_t i = 0; i < 16 * from.size(); ++i) bytes[i] = uint8_t(1 + i * 31 + i / 4096);
    std::memset(to.data(), 0, 16 * to.size());
    int stream = 0;
    REQUIRE(peer_copy(to.data(), from.data(), 16 * packs, &stream) == 0);
    REQUIRE(emulated::machine().run() == "");
    CHECK(std::memcmp(to.data(), from.data(), 16 * packs) == 0);
    const Line none{};
    CHECK(std::memcmp(&to[packs], &none, 16) == 0);
  }
  Line line{};
  CHECK(peer_copy(&line, &line, 0, nullptr) != 0);
  CHECK(peer_copy(&line, &line, 8, nullptr) != 0);
}

TEST_CASE("emulated GPU: a chase takes as many loads as it is told", "[peer_copy]") {
  emulated::machine().behave({.seed = 2});
  std::vector<uint64_t> chain(7);
  for (size_t i = 0; i < chain.size(); ++i)
    chain[i] = uint64_t(reinterpret_cast<uintptr_t>(&chain[(i + 3) % chain.size()]));
  for (const uint32_t steps : {1u, 5u, 70u}) {
    uint64_t end = 0;
    int stream = 0;
    REQUIRE(peer_chase(chain.data(), steps, &end, &stream) == 0);
    REQUIRE(emulated::machine().run() == "");
    CHECK(end == uint64_t(reinterpret_cast<uintptr_t>(&chain[steps * 3 % chain.size()])));
  }
  CHECK(peer_chase(chain.data(), 0, nullptr, nullptr) != 0);
}
