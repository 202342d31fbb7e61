// The bytes that ranks write into windows to see whose memory they look at: each byte depends on
// the window's owner, on who wrote it, on the round and on where it lies, so that a byte that comes
// from another rank, another place or an earlier round is told from the right one. Pure.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace collctl::cmd {

struct PatternKey {
  int owner = 0;   // whose window
  int writer = 0;  // who wrote
  uint64_t round = 0;
};

uint8_t pattern_byte(const PatternKey& key, uint64_t offset);
// `bytes` lie from `offset` on in the owner's window.
void fill_pattern(std::span<uint8_t> bytes, const PatternKey& key, uint64_t offset);

struct PatternFault {
  uint64_t offset = 0, bad_bytes = 0;  // the first one's, and how many
  uint8_t expected = 0, found = 0;
  std::string whose;  // what it is instead, as far as it can be told; may be empty
};
// `ranks` and rounds up to the key's are looked through for what a wrong byte is.
std::optional<PatternFault> compare_pattern(std::span<const uint8_t> bytes, const PatternKey& key,
                                            uint64_t offset, int ranks);
// "byte 4096 is 3f, not 12 (1 byte wrong); it is what rank 2 wrote"
std::string text_of(const PatternFault& fault);

}  // namespace collctl::cmd
