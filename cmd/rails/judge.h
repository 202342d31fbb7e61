// The paths between NICs held against each other: which are bad and whose fault that is (judge.cc),
// and what to set so that jobs use the good ones (recommend.cc). Part of cmd/rails. Pure.
#pragma once
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "cmd/rails/path_trials.h"
#include "cmd/rails/usual.h"

namespace collctl::cmd {

class RailsJudge {
 public:
  RailsJudge(const RailsReport& report, double below)
      : r_(report),
        below_(below),
        cells_(all_cells(report)),
        rail_only_(is_rail_only()),
        usual_(usual_speeds(report, rail_only_)),
        paths_(report, rail_only_, usual_, below) {}
  RailsFindings run();
  const PathTrials& paths() const { return paths_; }

 private:
  bool same_rail(const RailAt& at) const { return nic_from(r_, at).name == nic_to(r_, at).name; }
  // Ways that can be at all, and that this fabric is meant to have.
  bool counts(const RailAt& at) const {
    return cell_at(r_, at).end != RailEnd::unlike && (!rail_only_ || same_rail(at));
  }
  double rate(const RailAt& at) const {
    return std::min(nic_from(r_, at).rate_Gbps, nic_to(r_, at).rate_Gbps);
  }
  bool bad(const RailAt& at) const { return counts(at) && paths_.bad(at); }
  bool is_explained(const Trial& trial) const {
    return std::ranges::any_of(trial.parts, [&](int part) { return behind_.contains(part); });
  }
  bool is_rail_only() const;
  void count();
  void find_hosts();
  void check_paths();
  void find_spoilt();
  void find_odd_links();
  void find_culprits();
  std::vector<std::string> best_names() const;
  std::string why_not_served(const RailsHost& host) const;
  void recommend();
  void recommend_ports(const std::vector<std::string>& names);
  void recommend_interface(const std::vector<std::string>& names);

  const RailsReport& r_;
  double below_;
  std::vector<RailAt> cells_;
  bool rail_only_;
  std::map<double, double> usual_;
  PathTrials paths_;
  std::set<int> behind_;  // what is bad: parts of paths_
  RailsFindings v_;
};

}  // namespace collctl::cmd
