// The network devices of a rank's node, and which of them its links use: topology/cluster/wiring.h
// by name. A value; pure.
#pragma once
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "topology/cluster/wiring.h"
#include "transport/transport.h"

namespace collctl::runtime {

struct RankNics {
  std::vector<std::string> names;      // of the node's devices
  std::vector<transport::NicGdr> gdr;  // of each and this rank's GPU
  topology::RankWiring wiring;
  // Links of this rank that another one's GPU sends for it, or this one's for another (ranks of the
  // job; `device` of the sender's node).
  std::vector<topology::RelayedLink> relayed;

  // As RankWiring has them, by ranks of the job.
  std::vector<std::vector<topology::PairLink>> pairs_to, pairs_from;
  // By sender and relay: why that cannot be, though it was asked for by name.
  std::map<std::pair<int, int>, std::string> no_relay;

  // Ranks of this host that this one may ask to send for it (PXN), and those that may ask this one.
  std::set<int> relays, relayed_for;

  // The link for a message between this rank and `peer`.
  topology::PairLink pair(int channel, bool sends, int peer) const {
    const auto& all = sends ? pairs_to : pairs_from;
    if (size_t(peer) >= all.size() || all[size_t(peer)].empty()) return {};
    return all[size_t(peer)][size_t(channel) % all[size_t(peer)].size()];
  }

  // Null: the link goes straight from rank to rank.
  const topology::RelayedLink* relay_of(int channel, int from, int to) const {
    const auto found = std::ranges::find_if(relayed, [&](const topology::RelayedLink& link) {
      return link.channel == channel && link.from == from && link.to == to;
    });
    return found == relayed.end() ? nullptr : &*found;
  }

  // A device by its index; -1: none.
  transport::NicChoice choice(int device) const {
    if (device < 0) return {};
    return {.name = names[size_t(device)], .gdr = gdr[size_t(device)]};
  }
  // For what no ring or tree carries: the near ones in turn.
  transport::NicChoice near(int turn) const {
    const std::vector<int>& all = wiring.near;
    return choice(all.empty() ? -1 : all[size_t(turn) % all.size()]);
  }
};

}  // namespace collctl::runtime
