// A measurement as a whole, and what is held against it. Pure: values in, values out.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "cmd/job/job.h"
#include "cmd/judge/limits.h"
#include "cmd/judge/verdict.h"
#include "cmd/measure/bench.h"
#include "cmd/text/provenance.h"

namespace collctl::cmd {

// --on-loss shrink: ranks that were lost before a row.
struct LossLine {
  LostRanks lost;
  int ranks_left = 0;   // that measured from there on
  uint64_t at_row = 0;  // rows before it
};

struct BenchReport {
  BenchSpec spec;
  std::optional<BenchHeader> header;
  std::vector<BenchRow> rows;
  std::vector<LossLine> losses = {};
  std::vector<DataFault> faults;
  std::optional<BenchClosing> closing;
  std::vector<HostEnd> hosts;  // of a job on hosts, when it is over
  Provenance made = {};
  uint64_t trace_left_out = 0;  // operations that are not in the file of --trace
};

// The data, thresholds, then what was not measured.
std::vector<Finding> findings_of(const BenchReport& report, const Limits& limits);
// `error`: that ended the job.
Verdict judge(const BenchReport& report, const Limits& limits, std::optional<Error> error);
// A finding for each host that was asked for and took no part (--allow-missing).
std::vector<Finding> left_out_findings(const std::vector<HostEnd>& hosts);
// How many ranks measured a row: of the job, those that were left, or with --split of its group. 0:
// no header has come.
int ranks_of(const BenchReport& report, const BenchRow& row);
// The end of a sentence on an efficiency that nobody knows: what had to be assumed of the paths,
// and what to do. Empty: nothing had.
std::string why_not_expected(const BenchReport& report);
// It says that a timing misses a limit: what is measured again before it counts.
bool says_too_slow(const Finding& finding);
// Mean of the bus bandwidths of all timings, as nccl-tests prints it, and how many.
struct Average {
  double busbw_GBps = 0;
  int timings = 0;
  double best_GBps = 0;
  uint64_t best_bytes = 0;
};
Average average_busbw(const BenchReport& report);
// With --split: how often which group was the slowest of those that measured the same at one time,
// and by how much at the largest size.
struct SlowestGroups {
  struct Group {
    int group = -1, times = 0;
  };
  std::vector<Group> groups;  // those that were, the most frequent first
  int measured = 0;           // times that there was a slowest
  uint64_t largest_bytes = 0;
  int at_largest = -1;  // -1: of one group there is no slowest
  double ratio = 0;     // of its time to the fastest group's
};
SlowestGroups slowest_groups(const BenchReport& report);
// Another library beside ours, over all timings that have both: the geometric mean of its time by
// ours.
struct Comparison {
  std::string name;  // "nccl 2.28.9"
  int timings = 0;   // 0: none
  double ratio = 0;
  double lowest = 0;
  uint64_t lowest_bytes = 0;
};
Comparison compared(const BenchReport& report);

}  // namespace collctl::cmd
