#include "runtime/window/offsets.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"

namespace collctl::runtime {

std::optional<uint64_t> WindowOffsets::take(uint64_t bytes, uint64_t alignment) {
  COLL_CHECK(bytes > 0 && alignment > 0);
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    const uint64_t from = it->first, size = it->second;
    const uint64_t skipped = (alignment - from % alignment) % alignment;
    if (skipped > size || size - skipped < bytes) continue;
    const uint64_t at = from + skipped, rest = size - skipped - bytes;
    free_.erase(it);
    if (skipped > 0) free_[from] = skipped;
    if (rest > 0) free_[at + bytes] = rest;
    return at;
  }
  return std::nullopt;
}

void WindowOffsets::give(uint64_t offset, uint64_t bytes) {
  COLL_CHECK(bytes > 0 && offset <= bytes_ && bytes <= bytes_ - offset);
  auto after = free_.lower_bound(offset);
  COLL_CHECK_NOTE(after == free_.end() || after->first >= offset + bytes, "freed twice");
  if (after != free_.end() && after->first == offset + bytes) {
    bytes += after->second;
    after = free_.erase(after);
  }
  if (after != free_.begin()) {
    const auto before = std::prev(after);
    COLL_CHECK_NOTE(before->first + before->second <= offset, "freed twice");
    if (before->first + before->second == offset) {
      before->second += bytes;
      return;
    }
  }
  free_[offset] = bytes;
}

uint64_t WindowOffsets::largest_free() const {
  uint64_t largest = 0;
  for (const auto& [from, bytes] : free_) largest = std::max(largest, bytes);
  return largest;
}

}  // namespace collctl::runtime
