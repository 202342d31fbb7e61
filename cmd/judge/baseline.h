// Timings of earlier runs, per machine, that a run is held against (--baseline, --save-baseline).
//
// A machine is what its measurement says it is: ranks, what each host computes with, and how the
// ranks are linked; not the hosts' names. Timings of another machine are never compared: what is
// not compared is not tested (8). Each run adds a sample to every timing, the newest are kept. A
// timing is slower when it exceeds the samples' median by more than three times their spread
// (1.4826 x median absolute deviation), and by kLeastSlower of it; from fewer than kFewSamples
// samples no spread can be told, and it must exceed kSlowerThanFew.
//
// JSON, collctl.baseline/1. The file is untrusted. Pure.
#pragma once
#include <string>
#include <vector>

#include "base/record.h"
#include "base/result.h"
#include "cmd/judge/finding.h"

namespace collctl::cmd {

struct BenchHeader;
struct BenchReport;

inline constexpr size_t kMostSamples = 32, kFewSamples = 3;
inline constexpr double kLeastSlower = 0.10, kSlowerThanFew = 0.30;

struct BaselineTiming {
  std::string what;  // "allreduce 1 GiB float32 sum, out of place", and what was asked for
  std::vector<double> samples_us;
};
struct BaselineMachine {
  std::string signature;
  std::vector<BaselineTiming> timings;
};
struct Baseline {
  std::string file;
  std::vector<BaselineMachine> machines;
};
inline constexpr size_t kMostBaselineText = 64 << 20;

// "2 CPU ranks: 2 on AMD EPYC, 2 cores; via SHM"
std::string machine_signature(const BenchHeader& header);

// Errors: usage, with the file's name.
Result<Baseline> parse_baseline(const std::string& file, const std::string& text);
std::string baseline_json(const Baseline& baseline);
// Limit for one timing; 0: there is none.
double most_us(const std::vector<double>& samples);
// The report's timings as further samples. False: there is nothing that may be saved, for its data
// was wrong or nothing was measured.
bool add_samples(Baseline& baseline, const BenchReport& report);
void judge_baseline(const BenchReport& report, const Baseline& baseline,
                    std::vector<Finding>& findings);

}  // namespace collctl::cmd
