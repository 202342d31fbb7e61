// Measured paths between hosts as trials: each goes through two hosts, a direction of each, NICs
// and a link; cmd/judge/blame says which of them is at fault. THE judgement of paths: `rails` and
// the pairs of `check` both go by it, and rank 0 measures again what it finds open. Pure. Threads:
// values.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "cmd/judge/blame.h"
#include "cmd/rails/rails.h"

namespace collctl::cmd {

inline constexpr const char* kMtuRemedy =
    "small messages pass and large ones do not: give every port and switch on the path the same "
    "MTU (ip link set DEV mtu N; a RoCE interface's is at least its port's plus 64)";

class PathTrials {
 public:
  // Every measurement of the report, those that were made again after the first ones. `usual`: of
  // usual_speeds(); below 0 nothing is slow.
  PathTrials(const RailsReport& report, bool rail_only, const std::map<double, double>& usual,
             double below);

  Blame blamed() const { return blame(parts_.all(), trials_); }
  // Hosts to measure among themselves once more; fewer than two: nothing is open.
  std::vector<int> to_measure(int round) const;
  const Suspects& parts() const { return parts_; }
  const std::vector<Trial>& trials() const { return trials_; }
  // The last measurement of a path.
  bool bad(const RailAt& at) const { return last_.at(at).bad; }
  // The trial of that.
  size_t last_trial(const RailAt& at) const { return last_.at(at).trial; }
  // "0.0096 GB/s, 20 % of its packets sent again"; why nothing passes.
  const std::string& text(const RailAt& at) const { return last_.at(at).text; }
  // It was slow, but not very, while an end was busy.
  bool pardoned(const RailAt& at) const { return last_.at(at).pardoned; }
  // Bad paths through this part all pass small messages, and no large ones.
  bool loses_large(int part) const;
  // Bad once, and good when it was measured again.
  size_t came_back() const;
  // "node03 eth0 -> node02 eth0: connection timed out" of what is bad, at most a few.
  std::string examples(int part) const;

 private:
  struct Last {
    bool bad = false, was_bad = false, pardoned = false, large_lost = false;
    size_t trial = 0;
    std::string text;
  };
  void add(const RailPair& pair, size_t place, const std::map<double, double>& usual);
  void add_cell(const RailAt& at, const RailResult& cell, double usual);
  std::vector<int> parts_of(const RailAt& at, bool back, bool beside = false);
  void add_nic(std::vector<int>& parts, const RailsHost& host, size_t nic, Way way);

  const RailsReport& report_;
  bool rail_only_;
  double below_, most_resent_;
  Suspects parts_;
  std::vector<Trial> trials_;
  std::map<RailAt, Last> last_;  // by the pairs of the report
};

// The culprits behind the bad paths, in the words that all commands use: a finding for each, and
// for each that can be named a culprit.
struct PathBlame {
  std::vector<Finding> findings;
  std::vector<Culprit> culprits;
};
PathBlame path_blame(const PathTrials& paths, const Blame& found);

}  // namespace collctl::cmd
