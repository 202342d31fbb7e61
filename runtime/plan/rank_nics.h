// The network devices of a rank's node, and which of them its links use: topology/cluster/wiring.h
// by name. A value; pure.
#pragma once
#include <algorithm>
#include <string>
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
