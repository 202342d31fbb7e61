// Late ranks, from how all ranks' time went: a late rank waits least, and the others wait for it;
// where none is late, a link that carries much longer than the others is what they wait for. Pure.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "cmd/judge/finding.h"
#include "cmd/measure/bench.h"

namespace collctl::cmd {

struct Straggler {
  Subject at;        // a rank, a host or a link
  double share = 0;  // of the time: its own, or that of carrying data
  double usual = 0;  // of the others
  std::string why;   // in words
};
// The latest first. Empty: nobody stands out.
std::vector<Straggler> stragglers(std::span<const RankWaits> ranks);
// "rank 2 (host node01)", "host node01", "link rank 1 (node01) -> rank 2 (node02)".
std::string straggler_name(const Straggler& straggler);

}  // namespace collctl::cmd
