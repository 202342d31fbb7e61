#include "transport/net/socket/lane_helper.h"

#include <algorithm>

#include "base/bell.h"
#include "base/numa.h"
#include "base/wait.h"
#include "transport/net/socket/connection.h"

namespace collctl::transport {
namespace {

constexpr int64_t kGiveBackMs = 2;  // so long nothing came, and nothing was to be sent
constexpr int64_t kIdleMs = 1000;   // a sleep while the driver serves

}  // namespace

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

void LaneHelper::take_over() {
  serving_.store(true, std::memory_order_release);
  base::ring_bell(bell_.get());
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
      if (!serving()) break;
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

// Until a socket is ready that is its own to serve; until take_over() or wake() was called or stop_
// is set (all ring the bell); or for so long that the lanes are the driver's again.
void LaneHelper::rest(SocketConnection& connection) {
  const bool mine = serving();
  sleeps_.exchange(1, std::memory_order_acq_rel);
  std::vector<pollfd> fds{{bell_.get(), POLLIN, 0}};
  for (const int index : lanes_) {
    const SocketLane& lane = *connection.lanes_[size_t(index)];
    if (!mine || lane.closed()) continue;
    // A push since the last look shows as POLLOUT.
    fds.push_back({lane.fd(), short(POLLIN | (lane.sending() ? POLLOUT : 0)), 0});
  }
  Result<int> ready = base::poll_fds(fds, Deadline::after_ms(mine ? kGiveBackMs : kIdleMs));
  if (!ready) connection.fail(connection.lost(ready.error()));
  sleeps_.exchange(0, std::memory_order_acq_rel);
  base::drain_bell(bell_.get());
  if (mine && ready && *ready == 0) give_back(connection);
}

// Messages pushed from here on are served by the driver; those pushed before are seen here or by
// the driver's next look. A driver that sleeps does not watch the sockets yet.
void LaneHelper::give_back(SocketConnection& connection) {
  for (const int index : lanes_)
    if (connection.lanes_[size_t(index)]->busy()) return;
  serving_.store(false, std::memory_order_release);
  connection.ring_driver();
}

}  // namespace collctl::transport
