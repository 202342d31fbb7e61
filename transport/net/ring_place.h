// Where item `number` of an endless sequence lies in a ring of `size`. Sizes are powers of two as a
// rule, and a division of 64 bits costs as much as a queue of an adapter that is looked at: a
// message of a few bytes would take a dozen. Pure.
#pragma once
#include <cstdint>

namespace collctl::transport {

inline uint32_t ring_place(uint64_t number, uint32_t size) {
  const bool power_of_two = (size & (size - 1)) == 0;
  return uint32_t(power_of_two ? number & (size - 1) : number % size);
}

}  // namespace collctl::transport
