// The groups of heads of CollNet, a plugin's in-network reduction: made at start-up, or when the
// choices first allow it. All ranks take part in every exchange, whatever became of them.
//
// Threads: the communicator's, one at a time. Owns nothing: what it is given outlives the call; the
// links that it makes are the wire's.
#pragma once
#include <span>

#include "base/result.h"
#include "runtime/bootstrap/bootstrap.h"
#include "runtime/communicator/first_error.h"
#include "runtime/links/wire.h"
#include "runtime/plan/shape.h"
#include "runtime/request/settings.h"
#include "transport/table/nets.h"

namespace collctl::runtime {

struct CollNetGroup {
  int rank = 0;
  std::span<const transport::PeerInfo> peers;
  const Settings& settings;
  Bootstrap& bootstrap;
  Wire& wire;
  FirstError& errors;
  const RankNics* nics = nullptr;  // null: not known
};
// Connects the heads of `network`'s chains. Where a rank cannot, there is no in-network reduction
// for anybody, and `network` says why. `alone`: the choices allow nothing else, so that is an error
// (unavailable). Other errors: the exchange itself failed (lost, deadline).
Status connect_collnet(const CollNetGroup& group, NetworkReduction& network, bool alone,
                       Deadline deadline);

}  // namespace collctl::runtime
