// How a chunk is cut into slices: the rule both ends of a fifo share (block.h). Host and device.
#pragma once
#include <cstdint>

#include "kernels/contract/fifo.h"

namespace collctl::kernels {

// LL128: lines of 128 bytes, the last 8 of each a flag (step + 1, all 64 bits). Line j of a slice
// holds its data bytes [120 j, 120 j + 120).
inline constexpr uint32_t kLl128LineBytes = 128;
inline constexpr uint32_t kLl128DataBytes = 120;

// Data bytes one slot holds, a multiple of 16: LL spends half of its wire bytes on flags, LL128 one
// sixteenth.
COLL_FN uint64_t slot_data_bytes(uint32_t slot_bytes, Protocol protocol) {
  switch (protocol) {
    case Protocol::ll:
      return slot_bytes / 2;
    case Protocol::ll128:
      return uint64_t(slot_bytes) / kLl128LineBytes * kLl128DataBytes / 16 * 16;
    default:
      return slot_bytes;
  }
}

// LL lines that a slice leaves unused keep old flags, and after 2^32 steps an old flag would look
// like a new one. In the last slot_count steps before each multiple of 2^31, so once a slot,
// producers write all lines of the slot; no flag older than that is ever seen.
COLL_FN bool ll_writes_whole_slot(uint64_t step, uint32_t slot_count) {
  constexpr uint64_t kPeriod = uint64_t(1) << 31;
  return step % kPeriod >= kPeriod - slot_count;
}

struct Slices {
  uint64_t count;          // 0 for an empty chunk
  uint64_t elements_each;  // of all but the last
};

// `n` elements of `element_bytes` into slots of `data_bytes`: as few slices as fit, equal,
// multiples of 16 bytes.
COLL_FN Slices cut_into_slices(uint64_t n, uint32_t element_bytes, uint64_t data_bytes) {
  if (n == 0) return {0, 0};
  const uint64_t bytes = n * element_bytes;
  const uint64_t count = (bytes + data_bytes - 1) / data_bytes;
  const uint64_t each_bytes = ((bytes + count - 1) / count + 15) / 16 * 16;
  const uint64_t each = each_bytes / element_bytes;
  return {(n + each - 1) / each, each};
}

}  // namespace collctl::kernels
