// The second run of the data check: the same schedule on rank-tagged 64-bit integers, which say
// whose contribution is missing, doubled, from elsewhere or damaged. Collective: every rank calls
// it on its own thread after a row came out wrong somewhere.
//
// A tag of 64 bits travels in as many passes as it takes pieces of the element's own width, so that
// channels, chunks, slices and slots are exactly those of the run that failed. Sums: a nibble for
// each rank, 16 ranks a tag; 3 or 5 by rank and element, so that 0 is missing, 6 or 10 doubled, the
// other weight foreign, and one flipped bit is none of these. Data movement: (source rank + 1) <<
// 40 | element of its input, so that 0 is nobody's.
#pragma once
#include <cstdint>
#include <vector>

#include "cmd/verify/row.h"
#include "runtime/communicator/communicator.h"

namespace collctl::cmd {

enum class TagState : uint8_t { right, missing, doubled, foreign, damaged, unwritten };
inline constexpr int kTagStates = 6;

struct TagSample {  // one wrong element of an output
  uint64_t element = 0;
  std::vector<TagState> states;  // sums: by rank; data movement: one
  int foreign_rank = -1;         // data movement, foreign: what stands there instead
  uint64_t foreign_element = 0;
};
struct TagFindings {               // of one rank
  uint64_t bad = 0;                // wrong elements of the pass that had most
  std::vector<TagSample> samples;  // the first kMaxTagSamples found
};
inline constexpr size_t kMaxTagSamples = 64;
inline constexpr int kMaxTaggedRanks = 256;  // above it a run would need too many passes

struct TagRun {
  runtime::Communicator& communicator;
  runtime::Stream& stream;
  const RowKey& key;
  Place place;
  RunBuffers buffers;
};
// Overwrites the buffers. Errors are the communicator's.
Result<TagFindings> run_tags(const TagRun& run);

}  // namespace collctl::cmd
