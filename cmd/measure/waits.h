// How the ranks' time went while operations were timed (--stragglers): who waited for whom, and who
// did not wait because the others waited for it. Counted by the works and kernels themselves
// (kernels/contract/waits.h) and by the network's links. Values, and a watch on the rank's thread.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/communicator/communicator.h"

namespace collctl::cmd {

struct PeerWaits {
  int peer = 0;
  double recv_us = 0;      // waited for its data
  double send_us = 0;      // waited for it, or the network, to take data
  double carrying_us = 0;  // the network carried data to it
  uint64_t waits = 0;
};
struct RankWaits {
  int rank = 0;
  Host host;
  double elapsed_us = 0;  // in timed operations
  double waited_us = 0;   // of it
  double away_us = 0;     // of the rest: without a processor although it could have gone on
  std::vector<PeerWaits> peers;
  // What it took for itself while the others may have waited for it.
  double own_us() const { return elapsed_us > waited_us ? elapsed_us - waited_us : 0; }
};

class WaitWatch {
 public:
  explicit WaitWatch(const runtime::Communicator& communicator) : communicator_(communicator) {}
  // All is done that was started. Errors: the GPU's.
  Status begin();
  Status end();  // what has passed since then counts
  const RankWaits& sum() const { return sum_; }

 private:
  const runtime::Communicator& communicator_;
  runtime::WaitSums before_;
  int64_t began_ns_ = 0;
  RankWaits sum_;
};

}  // namespace collctl::cmd
