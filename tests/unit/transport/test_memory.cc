// The memory layout of a connection, and LL lines on their way over a network.
#include <atomic>
#include <cstring>

#include "tests/catch.h"
#include "transport/memory/fifo_memory.h"
#include "transport/net/ll_lines.h"

namespace memory_tests {

using namespace collctl;
using transport::FifoGeometry;
using transport::FifoLayout;

namespace {

FifoLayout layout_of(FifoGeometry simple, FifoGeometry ll, FifoGeometry ll128 = {}) {
  const FifoGeometry all[kernels::kProtocolCount] = {simple, ll, ll128};
  auto layout = transport::fifo_layout(all);
  REQUIRE(layout);
  return *layout;
}

}  // namespace

TEST_CASE("parts do not overlap and are aligned") {
  const FifoLayout layout = layout_of({65536, 8}, {16384, 8}, {1920, 3});
  size_t end = 0;
  for (const auto& part : layout.parts) {
    CHECK(part.counters % 128 == 0);
    CHECK(part.records >= part.counters + sizeof(kernels::FifoCounters));
    CHECK(part.slots % 128 == 0);
    CHECK(part.slots >= end);
    end = part.slots + size_t(part.geometry.slot_bytes) * part.geometry.slot_count;
    CHECK(end <= layout.total_bytes);
  }
  CHECK(layout.parts[0].slots % 4096 == 0);
  CHECK(layout.parts[2].records + 3 * sizeof(kernels::SlotRecord) <= layout.parts[0].slots);
}

TEST_CASE("protocols that are not wanted cost nothing") {
  const FifoLayout layout = layout_of({65536, 8}, {});
  CHECK(layout.total_bytes <= 65536 * 8 + 2 * 4096);
  CHECK(layout.parts[1].slots == 0);
}

TEST_CASE("a block made for something else is refused") {
  const FifoLayout layout = layout_of({1024, 4}, {});
  auto block = transport::private_fifo_memory(layout);
  REQUIRE(block);
  CHECK(transport::fifo_memory_check(block->get(), block->size(), layout));
  CHECK_FALSE(transport::fifo_memory_check(block->get(), block->size() - 1, layout));
  const FifoLayout other = layout_of({512, 8}, {});
  Status differs = transport::fifo_memory_check(block->get(), block->size(), other);
  REQUIRE_FALSE(differs);
  CHECK(differs.error().message.find("4 of 1024 at the peer") != std::string::npos);
  std::memset(block->get(), 0, 8);
  CHECK_FALSE(transport::fifo_memory_check(block->get(), block->size(), layout));
}

TEST_CASE("lines are packed for the wire and come back with the flags of their step") {
  constexpr uint32_t kLines = 4;
  alignas(16) uint32_t slot[kLines * 4];
  for (uint32_t i = 0; i < kLines; ++i) {
    slot[4 * i] = 100 + 2 * i;
    slot[4 * i + 2] = 101 + 2 * i;
    slot[4 * i + 1] = slot[4 * i + 3] = 77;
  }
  const auto* bytes = reinterpret_cast<const uint8_t*>(slot);
  alignas(8) uint32_t packed[kLines * 2] = {};
  const auto pack = [&](uint32_t from) {
    return transport::pack_lines(bytes, from, kLines, 77, reinterpret_cast<uint8_t*>(packed));
  };
  // Lines that are not there yet: the second half of one, the first of the next.
  slot[7] = 76;
  slot[9] = 0;
  CHECK(pack(0) == 1);
  slot[7] = 77;
  CHECK(pack(1) == 2);
  CHECK(packed[4] == 0);
  slot[9] = 77;
  CHECK(pack(2) == kLines);
  for (uint32_t i = 0; i < 2 * kLines; ++i) CHECK(packed[i] == 100 + i);

  alignas(16) uint32_t target[kLines * 4] = {};
  transport::unpack_lines(reinterpret_cast<uint8_t*>(packed), 2,
                          {reinterpret_cast<uint8_t*>(target), sizeof target, 2, 41});
  CHECK(target[0] == 100);
  CHECK(target[1] == 42);
  CHECK(target[6] == 103);
  CHECK(target[7] == 42);
  CHECK(target[9] == 0);  // a line that is not part of the message is not announced
}

TEST_CASE("near the wrap of the flags every line of a slot gets a new flag once") {
  // A line last written at step s must not look new at step s + 2^32: some step between them in
  // the same slot has to overwrite it, whatever sizes the messages have.
  for (const uint32_t slots : {2u, 3u, 8u})
    for (const uint64_t wrap : {uint64_t(1) << 31, uint64_t(1) << 32, 3 * (uint64_t(1) << 31)}) {
      std::vector<bool> cleaned(slots);
      for (uint64_t step = wrap - 2 * slots; step < wrap + 2 * slots; ++step) {
        alignas(16) uint32_t slot[8] = {};
        transport::unpack_lines(nullptr, 0,
                                {reinterpret_cast<uint8_t*>(slot), sizeof slot, slots, step});
        if (slot[7] == 0) continue;
        CHECK(slot[7] == uint32_t(step + 1));
        cleaned[step % slots] = true;
      }
      for (uint32_t i = 0; i < slots; ++i) CHECK(cleaned[i]);
    }
}

}  // namespace memory_tests
