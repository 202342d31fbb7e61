#include "cmd/measure/waits.h"

#include <algorithm>

#include "base/clock.h"

namespace collctl::cmd {

Status WaitWatch::begin() {
  COLL_ASSIGN(before_, communicator_.wait_sums());
  began_ns_ = now_ns();
  return {};
}

Status WaitWatch::end() {
  const double elapsed = double(now_ns() - began_ns_) / 1e3;
  COLL_ASSIGN(const runtime::WaitSums after, communicator_.wait_sums());
  // Channels wait side by side: the mean of them.
  const double channels = std::max(after.channels, 1);
  sum_.elapsed_us += elapsed;
  sum_.away_us += double(after.away_ns - before_.away_ns) / 1e3 / channels;
  for (const auto& now : after.peers) {
    runtime::WaitSums::Peer old;
    for (const auto& peer : before_.peers)
      if (peer.peer == now.peer) old = peer;
    auto at = std::find_if(sum_.peers.begin(), sum_.peers.end(),
                           [&](const PeerWaits& peer) { return peer.peer == now.peer; });
    if (at == sum_.peers.end()) at = sum_.peers.insert(at, PeerWaits{.peer = now.peer});
    const double recv = double(now.recv_ns - old.recv_ns) / 1e3 / channels;
    const double send = double(now.send_ns - old.send_ns) / 1e3 / channels;
    at->recv_us += recv;
    at->send_us += send;
    at->carrying_us += double(now.carrying_ns - old.carrying_ns) / 1e3;
    at->waits += now.waits - old.waits;
    sum_.waited_us += recv + send;
  }
  return {};
}

}  // namespace collctl::cmd
