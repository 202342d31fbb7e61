// Which bytes of a slot of the flat range are free: intervals, first fit. Every rank of a team has
// one and makes the same calls, so they agree without talking. Pure values; one thread at a time.
#pragma once
#include <cstdint>
#include <map>
#include <optional>

namespace collctl::runtime {

class WindowOffsets {
 public:
  explicit WindowOffsets(uint64_t bytes = 0) : bytes_(bytes) {
    if (bytes > 0) free_[0] = bytes;
  }
  // A multiple of `alignment`, the lowest that fits; nothing when none does. bytes > 0.
  std::optional<uint64_t> take(uint64_t bytes, uint64_t alignment);
  // Gives back an offset from take(), with the same bytes.
  void give(uint64_t offset, uint64_t bytes);
  uint64_t largest_free() const;
  uint64_t bytes() const { return bytes_; }

 private:
  uint64_t bytes_;
  std::map<uint64_t, uint64_t> free_;  // from where, how much; never two side by side
};

}  // namespace collctl::runtime
