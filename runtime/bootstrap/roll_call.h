// An all-gather in which a rank that does not arrive is named by every other: blobs go to rank 0,
// which says who was missing or hands all blobs to all. Slower than the bootstrap's own all-gather
// for many ranks, where a rank only knows its neighbour; for calls that users may get wrong.
// All ranks together; the bootstrap's thread.
#pragma once
#include <string>
#include <vector>

#include "runtime/bootstrap/bootstrap.h"

namespace collctl::runtime {

// `number`: of the call, the same on all ranks, counted up by the caller. `what` is done, in words:
// "register windows". Errors: deadline, naming all ranks that did not arrive (blaming the first);
// lost, interrupted as of the bootstrap. A rank waits at most rank 0's time longer than its own.
Result<std::vector<Bytes>> roll_call(Bootstrap& bootstrap, uint32_t number, const std::string& what,
                                     ByteView card, Deadline deadline);

}  // namespace collctl::runtime
