// Measured paths between hosts as trials: each goes through two hosts, a direction of each, NICs
// and a link; cmd/judge/blame says which of them is at fault. Values; no job is run here. Threads:
// one.
#pragma once
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cmd/check/tally.h"
#include "cmd/judge/blame.h"
#include "cmd/rails/rails.h"

namespace collctl::cmd {

inline constexpr int kSparseFrom = 64;  // hosts: fewer measure every pair, these some of each host

// Two hosts of which one could not even connect to the other.
struct BrokenLink {
  std::string from, to;  // hosts
  std::string text;
};

class PathTrials {
 public:
  // Plans in the tally: both ways between each host and every other; of kSparseFrom hosts or more
  // at least one pair of each.
  PathTrials(const std::vector<std::string>& hosts, Tally& tally);
  // Every path of a report as a trial; the last report's words are those that are told. Error
  // defect: it is about a host that took no part.
  Status add(const RailsReport& report, const RailsFindings& found, double below);
  // No byte passed either way when the ranks found each other. Error defect: as add's.
  Status add_unconnected(const BrokenLink& link);

  Blame blamed() const { return blame(parts_.all(), trials_); }
  // Hosts to measure among themselves once more; fewer than two: nothing is open.
  std::vector<std::string> to_measure(int round) const;
  const Suspects& parts() const { return parts_; }
  const std::vector<Trial>& trials() const { return trials_; }
  // Paths that were slow, but not very, while an end was busy; and one such end with why.
  size_t pardoned() const { return pardoned_; }
  const std::string& busy() const { return busy_; }
  // The two hosts of a trial.
  std::pair<std::string, std::string> ends(const Trial& trial) const {
    return {hosts_[size_t(trial.parts[0])], hosts_[size_t(trial.parts[1])]};
  }
  // "node03 eth0 -> node02 eth0: connection timed out" of what was bad last, at most a few.
  std::string examples(const Suspect& part) const;

 private:
  struct Last {
    bool bad = false;
    std::string text;
  };
  Status known(const std::string& host) const;
  void add_cell(const RailsHost& from, size_t i, const RailsHost& to, size_t j,
                const RailResult& cell, const RailsFindings& found, double below);
  void did(const std::string& from, const std::string& to);
  Trial trial_between(const std::string& from, const std::string& to);
  void add_nic(Trial& trial, const RailsHost& host, size_t nic, Way way);
  void add_link(Trial& trial, const std::string& from, const std::string& to);

  std::vector<std::string> hosts_;
  Tally& tally_;
  Suspects parts_;
  std::vector<Trial> trials_;
  double usual_resent_ = -1, most_resent_ = 0;
  size_t pardoned_ = 0;
  std::string busy_;
  std::map<std::tuple<std::string, std::string, std::string, std::string>, Last> last_;
};

}  // namespace collctl::cmd
