// A collective over many hosts is slow: which of them make it so. Groups of the hosts do the same
// at the same time, and their members are exchanged: whoever was in a group that is not slow is
// good, and good hosts fill up the groups of those that are still under suspicion, so that all
// groups of a round are about equally large. The groups are halves, quarters, ... down to pairs:
// about log2(hosts) rounds, for one culprit or several. Values in, values out; no threads, no
// clock.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "cmd/judge/blame.h"

namespace collctl::cmd {

class Bisection {
 public:
  // Three hosts or more; of two nobody can say which it is. `whole`: what all together have of
  // what is expected (a ratio, as all here). Between the whole and the best group lies what divides
  // the slow groups from the good ones (their geometric mean), where they are further apart than
  // `below`; else all groups are slow.
  Bisection(std::span<const Host> hosts, double whole, double below);

  // The groups to measure next, by the hosts' indexes, each host in at most one; empty: no group
  // tells more, or there were enough rounds.
  Round next() const;
  // The share of what is expected that each group of such a round has; 0: it was not measured.
  void take(const Round& round, std::span<const double> ratios);

  // Hosts that make it slow: indexes, ascending. Each was slow in all its groups, and the others in
  // one of them were good elsewhere. None unless slow groups have less than `below` of good ones.
  // Before they are named the others are measured without them.
  std::vector<int> culprits() const;
  // The groups that `host` was in: how many were slow, of how many; and the median of their ratios.
  struct Evidence {
    int slow = 0, tried = 0;
    double ratio = 0;
  };
  Evidence evidence(int host) const;
  int rounds() const { return rounds_; }
  double good() const;  // of the groups that were not slow, the median ratio; 0: there was none
  int groups() const { return int(measured_.size()); }
  int slow_groups() const;
  // A group that has less is slow.
  double divide() const { return divide_; }

 private:
  struct Measured {
    HostGroup hosts;
    double ratio;
    bool slow;
  };
  void divide_groups();
  bool is_alone(int host) const;  // it was the one suspect of a slow group
  std::vector<Trial> trials(Suspects& parts) const;

  const std::vector<Host> hosts_;
  const double whole_, below_;
  double divide_;
  std::vector<Measured> measured_;
  std::vector<bool> good_;  // by host: it was in a group that is not slow
  int rounds_ = 0;
};

}  // namespace collctl::cmd
