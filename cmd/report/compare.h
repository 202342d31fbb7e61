// Several saved runs as one, and one against another. Pure. Threads: values.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "cmd/report/document_file.h"
#include "cmd/report/read.h"

namespace collctl::cmd {

// What of a saved run can be held against another.
struct ComparedRun {
  std::string name;   // of its file
  std::string title;  // what it is
  Judgement judged;
  std::optional<BenchReport> bench;
};

struct Compared {
  Document document;  // its text is for `width`
  Verdict verdict{{}, std::nullopt};
  int exit_code = 0;
};
// All of them: least, median and most of each timing, each failure with the number of runs that it
// is in. Ends as the worst of them.
Compared merge_runs(const std::vector<ComparedRun>& runs, size_t width);
// Timings of both with their ratio, findings that came and went. Slower than `below` times the
// first and a failure that came are failures; what only the first measured is not tested.
Compared diff_runs(const ComparedRun& was, const ComparedRun& is, double below, size_t width);

}  // namespace collctl::cmd
