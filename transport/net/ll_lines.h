// LL lines and the packed data of the wire: a line is {data lo, flag, data hi, flag}, the wire
// carries the 8 data bytes only. Called by net_link on the driver's thread.
#pragma once
#include <cstdint>

namespace collctl::transport {

// Packs the data of the lines [from, to) of a slot as far as they have the flag, which a producer
// may be writing now; line i's to packed + 8 i. Returns the first line that has not, or `to`.
uint32_t pack_lines(const uint8_t* slot, uint32_t from, uint32_t to, uint32_t flag,
                    uint8_t* packed);

// Writes `lines` lines of packed data with the flags of `step` while a consumer may be looking:
// each half line is stored at once. In the last slot_count steps before the flags' 31-bit wrap the
// rest of the slot is filled too, so that no flag older than 2^31 steps can be taken for
// new.
struct LineTarget {
  uint8_t* slot;
  uint32_t slot_bytes;
  uint32_t slot_count;
  uint64_t step;
};
void unpack_lines(const uint8_t* packed, uint32_t lines, const LineTarget& target);

}  // namespace collctl::transport
