// How a step that all ranks make together ended, for all to know: whatever became of them, all
// ranks come here, and leave with one answer, the first failed rank's. Ranks that cannot go on
// leave together, so that none takes another's leaving for the cause.
//
// Threads: the communicator's, one at a time; all ranks in the same order. Owns nothing.
#pragma once
#include <span>

#include "base/result.h"
#include "runtime/bootstrap/bootstrap.h"
#include "runtime/communicator/first_error.h"
#include "transport/peer.h"

namespace collctl::runtime {

struct StepOutcome {
  Status status;
  bool fell_back = false;  // some link did not get its first transport
  bool no_window = false;  // this rank could not do its part of the window
};
// The lowest rank of which it holds, or -1.
struct Agreement {
  int fell_back = -1, no_window = -1;
};
Result<Agreement> agree(Bootstrap& bootstrap, const FirstError& errors,
                        std::span<const transport::PeerInfo> peers, StepOutcome mine,
                        Deadline deadline);

// `reason`, which all ranks have.
Status leave_together(Bootstrap& bootstrap, Status reason, Deadline deadline);

}  // namespace collctl::runtime
