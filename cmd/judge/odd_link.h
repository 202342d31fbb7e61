// Interfaces that are unlike the others on their network: in MTU, or speed. ONE rule, for doctor,
// rails and the pairs of check. Pure. Threads: any.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "cmd/judge/finding.h"

namespace collctl::cmd {

// The value that more than half of them have; empty: there is none.
std::string usual_value(const std::vector<std::string>& values);

struct LinkOnNetwork {
  Host host;
  std::string interface, network;
  std::string value;  // "MTU 9000 400 Gb/s"
};
// A failure "network" of each that has not what most on its network have; where no value is most's,
// of all of them, with nothing in `expected`: the measurement cannot say whose fault it is.
std::vector<Finding> odd_links(std::span<const LinkOnNetwork> links);

}  // namespace collctl::cmd
