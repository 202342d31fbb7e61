// The machine itself: that it finds what a GPU would hang on or forbid, and repeats itself.
#include <cstring>
#include <string>
#include <vector>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/overlap.cuh"
#include "kernels/cuda/torn_store.h"
#include "tests/catch.h"

using namespace collctl::kernels::cuda;

namespace {

void meets_late(int* order, bool comes) {
  COLL_BLOCK_SHARED(int, shared);
  if (threadIdx.x == 0) shared = 7;
  if (comes || threadIdx.x < 32) __syncthreads();
  if (threadIdx.x == 40) *order = shared;
}
void meets_for_two_things(bool* any) {
  if (threadIdx.x == 3)
    __syncwarp();
  else
    *any = __any_sync(~0u, true);
}
void waits_for(const uint64_t* word) {
  while (load_acquire(word) == 0) {
  }
}
void looks(uint64_t times) {
  for (uint64_t word = 1; word <= times; ++word) load_acquire(&word);
}
void stores_off(uint8_t* to) {
  store_wire(to + 8, 1, 2);
}
void stores_alone(uint8_t* to) {
  store_pack_together(to + 16 * threadIdx.x, {{1, 2}}, threadIdx.x != 9);
}
void draws(uint64_t* ticket, uint64_t* drawn) {
  drawn[blockIdx.x * blockDim.x + threadIdx.x] = atomicAdd(ticket, 1);
}

template <class... Arguments>
std::string run(void (*kernel)(Arguments...), int threads, Arguments... arguments) {
  void* places[] = {&arguments...};
  if (launch_overlapping(address_of(kernel), 1, threads, nullptr, places) != cudaSuccess)
    return "not launched";
  return emulated::machine().run(1'000'000);
}

bool says(const std::string& text, const char* what) {
  return text.find(what) != std::string::npos;
}

}  // namespace

TEST_CASE("emulated GPU: what hangs or is not allowed is said", "[machine]") {
  emulated::machine().behave({.seed = 3});
  int order = 0;
  REQUIRE(run(meets_late, 64, &order, true) == "");
  REQUIRE(order == 7);
  const std::string stuck = run(meets_late, 64, &order, false);
  CHECK(says(stuck, "nothing can go on"));
  CHECK(says(stuck, "32 of 64 at barrier 0"));
  bool any = false;
  CHECK(says(run(meets_for_two_things, 32, &any), "meet for different things"));
  const uint64_t never = 0;
  CHECK(says(run(waits_for, 32, &never), "no end of it"));
  alignas(128) uint8_t memory[1024] = {};
  CHECK(says(run(stores_off, 1, &memory[0]), "not aligned"));
  CHECK(says(run(stores_alone, 32, &memory[0]), "a part of a line"));
  // It goes on from there.
  REQUIRE(run(meets_late, 64, &order, true) == "");
}

TEST_CASE("emulated GPU: a seed says who comes first", "[machine]") {
  const auto drawn = [](uint64_t seed) {
    emulated::machine().behave({.seed = seed});
    uint64_t ticket = 0;
    std::vector<uint64_t> order(128);
    REQUIRE(run(draws, 128, &ticket, order.data()) == "");
    REQUIRE(ticket == 128);
    return order;
  };
  CHECK(drawn(5) == drawn(5));
  CHECK(drawn(5) != drawn(6));
}

// Eight lanes store a line here without being a whole warp's store: so it arrives in parts.
TEST_CASE("emulated GPU: the torn-store test finds torn lines, and nobody who writes",
          "[machine]") {
  emulated::machine().behave({.seed = 1});
  constexpr uint32_t kLines = 64, kRounds = 40;
  for (const bool writes : {true, false}) {
    alignas(128) static uint8_t lines[kLines * 128];
    std::memset(lines, 0, sizeof lines);
    uint32_t torn = 0, abort_word = 0;
    int reader = 0, writer = 0;
    REQUIRE(torn_store_read(lines, kLines, kRounds, &torn, &abort_word,
                            writes ? int64_t(500'000'000) : int64_t(1'000'000), &reader) == 0);
    if (writes) REQUIRE(torn_store_write(lines, kLines, kRounds, &writer) == 0);
    REQUIRE(emulated::machine().run() == "");
    if (writes) CHECK((torn > 0 && torn < kTornStoreAborted));
    if (!writes) CHECK(torn == kTornStoreAborted);
  }
}

TEST_CASE("emulated GPU: the torn-store test counts from the last round that it saw", "[machine]") {
  emulated::machine().behave({.seed = 1});
  alignas(128) static uint8_t line[128];
  std::memset(line, 0, sizeof line);
  uint32_t torn = 0;
  const uint32_t abort_word = 0;
  int reader = 0, writer = 0;
  uint64_t long_ago = 400'000, meanwhile = 20'000;
  REQUIRE(run(looks, 1, long_ago) == "");
  REQUIRE(torn_store_read(line, 1, 3, &torn, &abort_word, emulated::machine().clock_ns(),
                          &reader) == 0);
  void* places[] = {&meanwhile};
  REQUIRE(launch_overlapping(address_of(looks), 1, 1, &writer, places) == cudaSuccess);
  REQUIRE(torn_store_write(line, 1, 3, &writer) == 0);
  REQUIRE(emulated::machine().run() == "");
  CHECK(torn < kTornStoreAborted);
}
