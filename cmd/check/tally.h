// How much a suite means to measure of each host, and how much of that it has: fewer done than
// planned, or nothing planned, is "not tested" whatever the suite itself says. The one place that
// holds suites to it is run_suite() in command.cc. Threads: values.
#pragma once
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "cmd/judge/finding.h"

namespace collctl::cmd {

class Tally {
 public:
  // In all suites the host takes part in what `what` names: "paths", "runs", "hosts".
  void plan(const Host& host, size_t count, const char* what);
  // One thing of the host was measured, whatever came of it. The same `key` counts once, as what is
  // measured again is no more than was planned.
  void did(const Host& host, const std::string& key);
  size_t planned() const, done() const;
  // Not tested (code 8): each host of which less was measured than planned, or all in one finding;
  // none for hosts that `excused` has, whose own failure is told. Nothing planned is one as well.
  std::vector<Finding> missing(const std::string& suite,
                               const std::map<Host, std::string>& excused) const;

 private:
  struct Counts {
    size_t planned = 0;
    std::set<std::string> done = {};
    size_t counted() const { return done.size() < planned ? done.size() : planned; }
  };
  std::map<Host, Counts> hosts_;
  const char* what_ = "measurements";
};

}  // namespace collctl::cmd
