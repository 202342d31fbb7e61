// A collective over many hosts is slow: which of them, or which links between two, make it so.
// Groups of the hosts do the same at the same time, and their members are exchanged: whoever was in
// a group that is not slow is good, and good hosts fill up the groups of those that are still under
// suspicion, so that all groups of a round are about equally large. The groups are halves,
// quarters, ... down to pairs: about log2(hosts) rounds, for one culprit or several. A slow group
// that no host explains is then divided by pairs of its quarters, so that any two of its hosts are
// together in a half of it, down to two hosts: at most three rounds for each halving. Values in,
// values out; no threads, no clock.
#pragma once
#include <map>
#include <span>
#include <string>
#include <utility>
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
  // The share of what is expected that each group of such a round, or any other, has; 0: it was not
  // measured.
  void take(const Round& round, std::span<const double> ratios);

  // Hosts that make it slow: indexes, ascending. Each was slow in all its groups, with nobody in
  // all of them but itself, and the others in one of them were good elsewhere. None unless slow
  // groups have less than `below` of good ones. Before they are named the others are measured
  // without them.
  const std::vector<int>& culprits() const { return culprits_; }
  // Links that do: two hosts, the lower index first, that are slow together each time, twice alone,
  // and good with others. Likewise.
  using Link = std::pair<int, int>;
  std::vector<Link> links() const;
  // The groups with all of these hosts: how many were slow, of how many; and the median of their
  // ratios.
  struct Evidence {
    int slow = 0, tried = 0;
    double ratio = 0;
  };
  Evidence evidence(const HostGroup& hosts) const;
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
  void find_hosts();
  void find_links();
  Round link_round() const;
  bool is_alone(int host) const;      // it was the one suspect of a slow group
  HostGroup company(int host) const;  // good hosts that were in all its slow groups
  bool is_explained(const HostGroup& group) const;
  size_t open_links(const HostGroup& group) const;
  bool have_met(int a, int b) const { return met_[size_t(a) * hosts_.size() + size_t(b)]; }
  std::vector<Trial> trials(Suspects& parts) const;

  const std::vector<Host> hosts_;
  const double whole_, below_;
  double divide_;
  std::vector<Measured> measured_;
  std::vector<bool> good_;  // by host: it was in a group that is not slow
  std::vector<bool> met_;   // by two of them: both were
  bool apart_ = true;       // the slow groups have less than `below` of the good ones
  std::vector<int> suspects_, culprits_;
  std::map<Link, int> slow_links_;  // how often they were slow alone
  int rounds_ = 0;
};

}  // namespace collctl::cmd
