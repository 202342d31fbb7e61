#include "cmd/window_test/pattern.h"

#include <algorithm>

#include "base/format.h"

namespace collctl::cmd {
namespace {

constexpr uint64_t kLook = 16;  // bytes behind a wrong one that say whose they are
constexpr uint64_t kRoundsBack = 4;
constexpr int kMostOwners = 256;  // that are looked through

uint64_t mixed(uint64_t x) {  // the finalizer of splitmix64
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

uint64_t seed_of(const PatternKey& key) {
  return mixed(mixed(mixed(uint64_t(uint32_t(key.owner))) + uint32_t(key.writer)) + key.round);
}

uint64_t word_at(uint64_t seed, uint64_t word) {
  return mixed(seed + word);
}

uint8_t byte_at(uint64_t seed, uint64_t offset) {
  return uint8_t(word_at(seed, offset / 8) >> (offset % 8 * 8));
}

bool matches(std::span<const uint8_t> bytes, const PatternKey& key, uint64_t offset) {
  const uint64_t seed = seed_of(key);
  for (size_t i = 0; i < bytes.size(); ++i)
    if (bytes[i] != byte_at(seed, offset + i)) return false;
  return true;
}

// Enough bytes in a row that chance does not make them another's.
std::string whose(std::span<const uint8_t> bytes, const PatternKey& key, uint64_t offset,
                  int ranks) {
  if (bytes.size() < 4) return "";
  if (std::all_of(bytes.begin(), bytes.end(), [](uint8_t b) { return b == 0; }))
    return "nothing was written there";
  for (uint64_t back = 1; back <= std::min(key.round, kRoundsBack); ++back)
    if (matches(bytes, {key.owner, key.writer, key.round - back}, offset))
      return format("it is what rank {} wrote {} round{} before", key.writer, back,
                    back == 1 ? "" : "s");
  for (int owner = 0; owner < std::min(ranks, kMostOwners); ++owner) {
    if (matches(bytes, {owner, owner, key.round}, offset) && owner != key.owner)
      return format("it is in the window of rank {}", owner);
    if (matches(bytes, {owner, key.writer, key.round}, offset) && owner != key.owner)
      return format("it was meant for rank {}", owner);
    if (matches(bytes, {key.owner, owner, key.round}, offset) && owner != key.writer)
      return format("it is what rank {} wrote", owner);
  }
  return "";
}

}  // namespace

uint8_t pattern_byte(const PatternKey& key, uint64_t offset) {
  return byte_at(seed_of(key), offset);
}

void fill_pattern(std::span<uint8_t> bytes, const PatternKey& key, uint64_t offset) {
  const uint64_t seed = seed_of(key);
  size_t i = 0;
  for (; i < bytes.size() && (offset + i) % 8 != 0; ++i) bytes[i] = byte_at(seed, offset + i);
  for (; i + 8 <= bytes.size(); i += 8) {
    const uint64_t word = word_at(seed, (offset + i) / 8);
    for (size_t k = 0; k < 8; ++k) bytes[i + k] = uint8_t(word >> (k * 8));
  }
  for (; i < bytes.size(); ++i) bytes[i] = byte_at(seed, offset + i);
}

std::optional<PatternFault> compare_pattern(std::span<const uint8_t> bytes, const PatternKey& key,
                                            uint64_t offset, int ranks) {
  PatternFault fault;
  const uint64_t seed = seed_of(key);
  uint64_t word = 0, word_number = ~uint64_t(0);
  for (size_t i = 0; i < bytes.size(); ++i) {
    const uint64_t at = offset + i;
    if (at / 8 != word_number) {
      word_number = at / 8;
      word = word_at(seed, word_number);
    }
    const auto expected = uint8_t(word >> (at % 8 * 8));
    if (bytes[i] == expected) continue;
    if (fault.bad_bytes++ == 0) {
      fault.offset = at;
      fault.expected = expected;
      fault.found = bytes[i];
    }
  }
  if (fault.bad_bytes == 0) return std::nullopt;
  const uint64_t first = fault.offset - offset;
  const uint64_t count = std::min<uint64_t>({kLook, bytes.size() - first, fault.bad_bytes});
  fault.whose = whose(bytes.subspan(first, count), key, fault.offset, ranks);
  return fault;
}

std::string text_of(const PatternFault& fault) {
  std::string text =
      format("byte {} is {:02x}, not {:02x} ({} byte{} wrong)", fault.offset, fault.found,
             fault.expected, fault.bad_bytes, fault.bad_bytes == 1 ? "" : "s");
  return fault.whose.empty() ? text : text + "; " + fault.whose;
}

}  // namespace collctl::cmd
