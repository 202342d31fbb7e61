#include "transport/net/lane_helper.h"

#include <algorithm>

#include "base/bell.h"
#include "base/numa.h"
#include "base/wait.h"
#include "transport/net/socket_connection.h"

namespace collctl::transport {

Result<std::unique_ptr<LaneHelper>> LaneHelper::create(int node) {
  COLL_ASSIGN(base::Fd bell, base::make_bell());
  return std::unique_ptr<LaneHelper>(new LaneHelper(std::move(bell), node));
}

LaneHelper::~LaneHelper() {
  stop_.store(true, std::memory_order_release);
  base::ring_bell(bell_.get());
  if (thread_.joinable()) thread_.join();
}

void LaneHelper::start(SocketConnection& connection, std::vector<int> lanes) {
  lanes_ = std::move(lanes);
  thread_ = std::thread([this, &connection] { run(connection); });
}

bool LaneHelper::serves(int lane) const {
  return std::find(lanes_.begin(), lanes_.end(), lane) != lanes_.end();
}

void LaneHelper::wake() {
  // Pairs with the exchange in rest(): either it sees the push, or this sees 1.
  if (sleeps_.exchange(0, std::memory_order_acq_rel) != 0) base::ring_bell(bell_.get());
}

void LaneHelper::run(SocketConnection& connection) {
  if (node_ >= 0) base::run_on_node(node_);
  while (!stop_.load(std::memory_order_acquire)) {
    bool moved = false;
    for (const int lane : lanes_) {
      Result<bool> pumped = connection.pump(lane, true);
      if (!pumped) {
        connection.fail(std::move(pumped.error()));
        return;
      }
      moved |= *pumped;
    }
    if (!moved) rest(connection);
  }
}

// Until a socket is ready, wake() was called or stop_ is set (both ring the bell).
void LaneHelper::rest(SocketConnection& connection) {
  sleeps_.exchange(1, std::memory_order_acq_rel);
  std::vector<pollfd> fds{{bell_.get(), POLLIN, 0}};
  for (const int index : lanes_) {
    const SocketLane& lane = *connection.lanes_[size_t(index)];
    if (lane.closed()) continue;
    // A push since the last look shows as POLLOUT.
    fds.push_back({lane.fd(), short(POLLIN | (lane.sending() ? POLLOUT : 0)), 0});
  }
  Result<int> ready = base::poll_fds(fds, Deadline::after_seconds(1));
  if (!ready) connection.fail(connection.lost(ready.error()));
  sleeps_.store(0, std::memory_order_release);
  base::drain_bell(bell_.get());
}

}  // namespace collctl::transport
