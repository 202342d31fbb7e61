#include "runtime/communicator/services.h"

#include "runtime/communicator/state.h"

namespace collctl::runtime {

const transport::Services& CommunicatorServices::transport() const {
  return communicator_.state_->wire->services();
}

const transport::NetPresence& CommunicatorServices::networks() const {
  return communicator_.state_->networks;
}

transport::NicChoice CommunicatorServices::nic_towards(int peer) const {
  const auto& nics = communicator_.state_->shape.nics;
  return nics == nullptr ? transport::NicChoice{} : nics->near(peer);
}

bool CommunicatorServices::shm_disabled() const {
  return communicator_.state_->settings.shm_disabled;
}

Status CommunicatorServices::exchange(const std::function<Status(Bootstrap&)>& exchange,
                                      Deadline deadline) {
  Communicator::State& s = *communicator_.state_;
  COLL_TRY(s.turns.wait_until_connected(deadline));
  const std::lock_guard lock(s.bootstrap_mutex);
  return exchange(*s.bootstrap);
}

void CommunicatorServices::wait_for_notice(Deadline deadline) const {
  communicator_.state_->errors.wait_for_notice(deadline);
}

}  // namespace collctl::runtime
