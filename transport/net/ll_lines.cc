#include "transport/net/ll_lines.h"

#include <atomic>
#include <cstring>

namespace collctl::transport {

namespace {

constexpr uint32_t kLineBytes = 16;
constexpr uint32_t kDataBytes = 8;

void store_half(uint8_t* at, uint32_t data, uint32_t flag) {
  // Data and flag travel in one word, so the word needs no order with anything else; release is
  // for readers that take the last line as a sign for what was written before.
  auto& word = *reinterpret_cast<uint64_t*>(at);
  std::atomic_ref<uint64_t>(word).store(uint64_t(flag) << 32 | data, std::memory_order_release);
}

}  // namespace

// Word by word from place to place: by way of an array on the stack g++ 12 and 13 compile it
// wrongly (CMakeLists.txt).
void pack_lines_in_place(uint8_t* slot, uint32_t lines) {
  for (uint32_t i = 0; i < lines; ++i) {
    const uint8_t* const line = slot + size_t(i) * kLineBytes;
    uint8_t* const data = slot + size_t(i) * kDataBytes;
    std::memmove(data, line, 4);
    std::memmove(data + 4, line + 8, 4);
  }
}

void unpack_lines(const uint8_t* packed, uint32_t lines, const LineTarget& target) {
  const auto flag = uint32_t(target.step + 1);
  for (uint32_t i = 0; i < lines; ++i) {
    uint32_t data[2];
    std::memcpy(data, packed + size_t(i) * kDataBytes, sizeof data);
    uint8_t* line = target.slot + size_t(i) * kLineBytes;
    store_half(line, data[0], flag);
    store_half(line + 8, data[1], flag);
  }
  constexpr uint32_t kPeriod = 1u << 31;
  if ((flag & (kPeriod - 1)) < kPeriod - target.slot_count) return;
  for (uint32_t i = lines; i < target.slot_bytes / kLineBytes; ++i) {
    uint8_t* line = target.slot + size_t(i) * kLineBytes;
    store_half(line, 0, flag);
    store_half(line + 8, 0, flag);
  }
}

}  // namespace collctl::transport
