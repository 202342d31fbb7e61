// A measurement as a whole, and what is held against it. Pure: values in, values out.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "cmd/job/job.h"
#include "cmd/judge/limits.h"
#include "cmd/judge/verdict.h"
#include "cmd/measure/bench.h"

namespace collctl::cmd {

struct BenchReport {
  BenchSpec spec;
  std::optional<BenchHeader> header;
  std::vector<BenchRow> rows;
  std::vector<DataFault> faults;
  std::optional<BenchClosing> closing;
  std::vector<HostEnd> hosts;  // of a job on hosts, when it is over
};

// Wrong data first, then thresholds, then what was not measured.
Verdict judge(const BenchReport& report, const Limits& limits);
// The worst of how the job ended and what the verdict says.
int final_code(int job_code, const Verdict& verdict);
// Mean of the bus bandwidths of all timings, as nccl-tests prints it, and how many.
struct Average {
  double busbw_GBps = 0;
  int timings = 0;
  double best_GBps = 0;
  uint64_t best_bytes = 0;
};
Average average_busbw(const BenchReport& report);
// Of all timings that another library was measured beside: the geometric mean of its time by ours.
struct Comparison {
  std::string name;  // "nccl 2.28.9"
  int timings = 0;   // 0: none
  double ratio = 0;
  double lowest = 0;
  uint64_t lowest_bytes = 0;
};
Comparison compared(const BenchReport& report);

}  // namespace collctl::cmd
