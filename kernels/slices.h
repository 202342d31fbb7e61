// How a chunk is cut into slices: the rule both ends of a fifo share (block.h). Host and device.
#pragma once
#include <cstdint>

#include "kernels/contract/fifo.h"

namespace collctl::kernels {

// Data bytes one slot holds: LL spends half of its wire bytes on flags.
COLL_FN uint64_t slot_data_bytes(uint32_t slot_bytes, Protocol protocol) {
  return protocol == Protocol::simple ? slot_bytes : slot_bytes / 2;
}

struct Slices {
  uint64_t count;           // 0 for an empty chunk
  uint64_t elements_each;   // of all but the last
};

// `n` elements of `element_bytes` into slots of `data_bytes`: as few slices as fit, equal, multiples of 16 bytes.
COLL_FN Slices cut_into_slices(uint64_t n, uint32_t element_bytes, uint64_t data_bytes) {
  if (n == 0) return {0, 0};
  const uint64_t bytes = n * element_bytes;
  const uint64_t count = (bytes + data_bytes - 1) / data_bytes;
  const uint64_t each_bytes = ((bytes + count - 1) / count + 15) / 16 * 16;
  const uint64_t each = each_bytes / element_bytes;
  return {(n + each - 1) / each, each};
}

}  // namespace collctl::kernels
