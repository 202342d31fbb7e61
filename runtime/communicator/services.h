// Services that a communicator lends to what is built on it, besides its calls: one-sided
// operations need its bootstrap, its networks and what transports are made with.
//
// Threads: the communicator's, one at a time. Owns nothing; the communicator outlives it.
#pragma once
#include <functional>

#include "base/result.h"
#include "runtime/communicator/communicator.h"
#include "transport/table/nets.h"
#include "transport/transport.h"

namespace collctl::runtime {

class Bootstrap;

class CommunicatorServices {
 public:
  explicit CommunicatorServices(Communicator& communicator) : communicator_(communicator) {}

  const transport::Services& transport() const;
  const transport::NetPresence& networks() const;
  transport::NicChoice nic_towards(int peer) const;  // for what no ring or tree carries
  bool shm_disabled() const;
  // An exchange between ranks over the bootstrap, once no operation in flight may use it.
  Status exchange(const std::function<Status(Bootstrap&)>& exchange, Deadline deadline);
  // Until this rank has failed, or an abort has been announced to it.
  void wait_for_notice(Deadline deadline) const;

 private:
  Communicator& communicator_;
};

}  // namespace collctl::runtime
