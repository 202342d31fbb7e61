// A communicator's UserWindows at start-up: its teams as the ranks find them together, and where
// buffers of operations lie in them. Threads: start-up's, then the one that starts operations.
#pragma once
#include <memory>
#include <span>

#include "base/result.h"
#include "runtime/plan/operation.h"
#include "runtime/plan/plan.h"
#include "runtime/request/settings.h"
#include "runtime/window/user_window.h"

namespace collctl::runtime {

struct TeamSearch {
  int rank = 0;
  const std::vector<transport::PeerInfo>* peers = nullptr;  // outlive the windows
  const Settings* settings = nullptr;
  uint64_t comm_hash = 0;
  transport::DevicePointer device;             // null: CPU ranks
  const std::vector<NoP2p>* no_p2p = nullptr;  // of this rank's host; null: none
  Bootstrap* bootstrap = nullptr;              // outlives the windows
};
// All ranks together. Errors: the exchange itself failed (lost, deadline).
Result<std::unique_ptr<UserWindows>> make_user_windows(const TeamSearch& search, Deadline deadline);

// Whether all buffers of these operations lie in windows, as far as this rank sees; then they point
// into its slot of the flat range. Where not, operations before the one that lies elsewhere keep
// what they got: it is the same memory.
bool place_in_windows(std::span<Operation> operations, const UserWindows& windows, int rank,
                      int nranks);

}  // namespace collctl::runtime
