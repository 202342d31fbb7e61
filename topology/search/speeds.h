// THE table of bandwidths that the search tries for one channel, and what limits them on a machine.
// Pure; threads: any.
#pragma once
#include <vector>

#include "topology/search/site.h"

namespace collctl::topology {

// GB/s, falling. By the oldest GPU's compute capability x 10; AMD's GPUs and unknown ones count as
// sm 80. Source: NCCL 2.30 (search.cc).
const std::vector<double>& channel_speeds(int sm, bool network);

struct SpeedLimits {
  int sm = 80;           // of the oldest GPU
  double path_gbps = 0;  // the best path of any GPU: to the network, or to another GPU without it
  double gpu_gbps = 0;   // the most that one GPU can send: its NVLinks together, or its PCI link
};
SpeedLimits speed_limits(const SearchSite& site);

// The first speed no faster than the limits let `min_channels` run; the last one when none is.
size_t first_speed(const std::vector<double>& speeds, double path_gbps, double total_gbps,
                   int min_channels);

}  // namespace collctl::topology
