// Several saved runs as one, and one against another. Pure. Threads: values.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cmd/document/document.h"
#include "cmd/document/judgement.h"
#include "cmd/report/paths.h"
#include "cmd/report/read.h"

namespace collctl::cmd {

// Parts of a saved run that can be compared with another.
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

// Figures of a saved run that can be held against another's: timings of collectives, what checks
// have measured, the matrix of paths. Pure; part of cmd/report. Threads: values.

struct Figure {
  double number = 0;
  std::string unit;         // GB/s, us
  std::string kind = {};    // figures of one kind scatter alike: sizes, hosts, paths
  Host from = {}, to = {};  // of a path
  bool spoilt = false;      // others had its host meanwhile
  bool once = false;        // of a single event that takes microseconds: no speed
  bool less_is_better() const { return unit == "us"; }
};
// By what was measured, then by size; sizes of one kind stay together.
using FigureKey = std::pair<std::string, uint64_t>;
using Figures = std::map<FigureKey, Figure>;

// Whether a run has measured one size in several choices of algorithm or protocol.
bool has_choices(const BenchReport& report);
// From timings and checks. `choices`: of any of the runs.
Figures figures_of(const ComparedRun& run, bool choices);
// Every path that was tried, from end to end.
Figures path_figures(const PathMatrix& paths);

std::string size_text(const FigureKey& key);  // "-": it has none
std::string name_of_finding(const Finding& finding);
bool fails(const Finding& finding);
// "# was FILE: title, passed"
std::string run_line(const char* what, const ComparedRun& run);
void write_run(JsonWriter& json, const ComparedRun& run);
void write_key(JsonWriter& json, const FigureKey& key, const Figure& figure);
std::string ratio_text(double ratio);

}  // namespace collctl::cmd
