// Several saved runs as one, and one against another. Pure. Threads: values.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "cmd/document/document.h"
#include "cmd/document/judgement.h"
#include "cmd/report/paths.h"
#include "cmd/report/read.h"

namespace collctl::cmd {

// What of a saved run can be held against another.
struct ComparedRun {
  std::string name;   // of its file
  std::string title;  // what it is
  Judgement judged;
  std::optional<BenchReport> bench;
  PathMatrix paths = {};
};

// All of them: least, median and most of each timing, each failure with the number of runs that it
// is in. Ends as the worst of them.
Document merge_runs(const std::vector<ComparedRun>& runs);
// diff.cc. Timings of both with their ratio, paths pair by pair, findings that came and went; the
// worst first. Less than `below` times the first, and less than figures of its kind scatter by
// between the two, is slower: a failure, as one that came. A figure spoilt by a busy host counts
// below a fifth; what happened once (connections in us) is listed and not judged. Figures that only
// the first measured are not tested.
Document diff_runs(const ComparedRun& was, const ComparedRun& is, double below);

}  // namespace collctl::cmd
