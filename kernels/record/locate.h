// Where in the schedule an element is handled: for the data check, which knows only that an element
// is wrong. Called on the host by whoever reports; runs the algorithm's text on the recorder,
// touches no buffer, keeps nothing. Cost: the number of verbs of the work.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/contract/work.h"

namespace collctl::kernels {

struct Location {
  int channel = 0;
  const char* verb = "";   // e.g. "recv_reduce_copy_send"
  uint64_t chunk = 0;      // number of the chunk, counted by place in the buffer
  uint64_t step = 0;       // receiving verbs of this rank and channel before this one
  uint64_t first = 0;      // first element of the chunk, from the buffer's begin
  uint64_t elements = 0;   // of the chunk
  std::vector<int> peers;  // whom it received from; empty when it came from this rank
};

// The last verb that writes element `element` of work.output on this rank; nothing when the work
// does not write it (another channel's part, or no output here).
std::optional<Location> locate(const Work& work, uint64_t element);
// The first verb that reads element `element` of work.input on this rank: where this rank's
// contribution enters. In place, reads of what the work wrote before count as well.
std::optional<Location> locate_input(const Work& work, uint64_t element);

}  // namespace collctl::kernels
