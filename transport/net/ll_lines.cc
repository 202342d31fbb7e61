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

// Exactly one load of data and flag.
uint64_t load_half(const uint8_t* at) {
  auto& word = *reinterpret_cast<uint64_t*>(const_cast<uint8_t*>(at));
  return std::atomic_ref<uint64_t>(word).load(std::memory_order_relaxed);
}

}  // namespace

uint32_t pack_lines(const uint8_t* slot, uint32_t from, uint32_t to, uint32_t flag,
                    uint8_t* packed) {
  for (uint32_t i = from; i < to; ++i) {
    const uint8_t* const line = slot + size_t(i) * kLineBytes;
    const uint64_t low = load_half(line), high = load_half(line + 8);
    if (uint32_t(low >> 32) != flag || uint32_t(high >> 32) != flag) return i;
    const uint64_t data = high << 32 | uint32_t(low);
    std::memcpy(packed + size_t(i) * kDataBytes, &data, sizeof data);
  }
  return to;
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
