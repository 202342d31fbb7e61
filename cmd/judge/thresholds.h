// Absolute thresholds from a file (--thresholds): what a collective must reach on so many ranks,
// and who says so. A line each, blanks between its columns, # begins a comment:
//
//   COLLECTIVE  SIZE  STATISTIC  RANKS|*  min|max  VALUE  SOURCE...
//   allreduce   1G    busbw      8        min      380    vendor's figures for this server
//   barrier     0     time       *        max      40     our jobs, 2026
//
// STATISTIC: busbw or algbw (GB/s), time, p50, p99 (us; the last two with --sync each), efficiency
// (of the expected; 0.85). The file is untrusted. Pure.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "cmd/judge/finding.h"
#include "cmd/verify/bench_op.h"

namespace collctl::cmd {

struct BenchReport;

enum class Statistic : uint8_t { busbw, algbw, time, p50, p99, efficiency };
inline constexpr int kStatistics = 6;
const char* name_of(Statistic statistic);

struct Threshold {
  BenchOp collective;
  uint64_t bytes = 0;
  Statistic statistic{};
  int ranks = 0;  // 0: any number
  bool minimum = false;
  double value = 0;
  std::string source;
  size_t line = 0;
};
struct Thresholds {
  std::string file;
  std::vector<Threshold> rows = {};
};
inline constexpr size_t kMostThresholds = 10'000, kMostThresholdText = 1 << 20;

// Errors: usage, with file, line and column.
Result<Thresholds> parse_thresholds(const std::string& file, const std::string& text);
// A finding for each timing that a row is about. Not tested: a row of this collective and number of
// ranks whose size or statistic was not measured; and all, when no row is about them.
void judge_thresholds(const BenchReport& report, const Thresholds& thresholds,
                      std::vector<Finding>& findings);

}  // namespace collctl::cmd
