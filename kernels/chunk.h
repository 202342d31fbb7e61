// Where chunks begin and end: the only place where tails exist. Algorithms ask here, on every rank
// and for every protocol alike, so that both ends of a connection see the same sizes.
// Called inside the algorithms, by whichever thread runs them; host and device; values only.
#pragma once
#include <cstdint>

#include "kernels/contract/work.h"

// Before an algorithm's template: the backend decides on which side it runs, so nvcc must not
// object that the other side could not.
#if defined(__CUDACC__)
#define COLL_NO_EXEC_CHECK _Pragma("nv_exec_check_disable")
#else
#define COLL_NO_EXEC_CHECK
#endif

namespace collctl::kernels {

// A set of collectives, as in the table of algorithms.
COLL_FN constexpr uint32_t collective_bit(Collective c) {
  return 1u << static_cast<int>(c);
}

// Elements in 16 bytes: chunks are multiples of it so that every chunk starts aligned if the part
// does. A power of two; without a division, which would slow small operations.
COLL_FN uint64_t chunk_grain(DataType type) {
  const uint32_t size = element_size(type);  // 1, 2, 4 or 8
  return 16u >> ((size >> 1) - (size >> 3));
}

// Up to `parts` chunks of equal size side by side, the last ones shorter or empty.
struct ChunkRow {
  uint64_t first;  // element where chunk 0 begins
  uint64_t each;   // elements of a full chunk
  uint64_t rest;   // elements from `first` to the end of the part

  COLL_FN uint64_t at(uint64_t i) const { return first + (i * each < rest ? i * each : rest); }
  COLL_FN uint64_t size(uint64_t i) const {
    const uint64_t before = i * each;
    if (before >= rest) return 0;
    return rest - before < each ? rest - before : each;
  }
};

// One loop of a ring: `parts` chunks beginning `done` elements into the part. Full loops take
// chunk_count elements a chunk; the last one shrinks its chunks so that every rank has about the
// same share of the rest.
COLL_FN ChunkRow ring_loop(const Work& work, uint64_t done, uint64_t parts) {
  const uint64_t rest = work.part_count - done;
  const uint64_t grain = chunk_grain(work.type);
  const uint64_t share = ((rest + parts - 1) / parts + grain - 1) & ~(grain - 1);
  return {work.part_offset + done, share < work.chunk_count ? share : work.chunk_count, rest};
}

// `count` elements beginning at `first`, cut into chunks of chunk_count.
COLL_FN ChunkRow chunk_sequence(const Work& work, uint64_t first, uint64_t count) {
  return {first, work.chunk_count, count};
}
COLL_FN uint64_t chunks_in(const ChunkRow& row) {
  return (row.rest + row.each - 1) / row.each;
}

// The address `elements` elements of the work's type behind `from`.
COLL_FN const void* element_at(const Work& work, const void* from, uint64_t elements) {
  return static_cast<const uint8_t*>(from) + elements * element_size(work.type);
}
COLL_FN void* element_at(const Work& work, void* from, uint64_t elements) {
  return static_cast<uint8_t*>(from) + elements * element_size(work.type);
}

}  // namespace collctl::kernels
