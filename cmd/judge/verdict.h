// The verdict: made of findings and of the error that ended the job, in this one place; what a
// command prints as its verdict and the exit code it ends with come from here. And THE table of the
// words that reasons are called by in reports, with the exit code that each leads to: who writes a
// report and who reads it back go by the same rows. Threads: values.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cmd/judge/finding.h"

namespace collctl::cmd {

struct ReasonRow {
  const char* word;  // in JSON: stable
  ErrorCode code;
};
// Reasons with a word of their own; all others are called by their code ("wrong-data", "failed",
// "not-tested", else as base::code_name says).
inline constexpr ReasonRow kWrongData{"wrong-data", ErrorCode::bad_data},
    kBelowMinBusbw{"below-min-busbw", ErrorCode::failed},
    kAboveMaxLatency{"above-max-latency", ErrorCode::failed},
    kBelowMinEfficiency{"below-min-efficiency", ErrorCode::failed},
    kBeyondThreshold{"beyond-threshold", ErrorCode::failed},
    kSlowerThanBaseline{"slower-than-baseline", ErrorCode::failed},
    kNotTested{"not-tested", ErrorCode::incomplete},
    kNotMeasured{"not-measured", ErrorCode::incomplete},
    kHostLeftOut{"host-left-out", ErrorCode::incomplete},
    kRankLost{"rank-lost", ErrorCode::incomplete}, kSpoilt{kBusyHost, ErrorCode::incomplete};
inline constexpr ReasonRow kReasons[] = {kWrongData,          kBelowMinBusbw,   kAboveMaxLatency,
                                         kBelowMinEfficiency, kBeyondThreshold, kSlowerThanBaseline,
                                         kNotTested,          kNotMeasured,     kHostLeftOut,
                                         kRankLost,           kSpoilt};
// A word of neither (of a later version's) is a failure.
ErrorCode code_of_reason(std::string_view word);

struct Reason {
  std::string code;  // a word
  std::string message, host;
  int rank = -1;
};

class Verdict {
 public:
  static constexpr size_t kMostReasons = 20;  // of one word
  // `error`: that ended the job. With one no verdict is a pass. `summary`: the reasons in words of
  // the command's own; empty: each finding that counts is one.
  Verdict(std::span<const Finding> findings, std::optional<Error> error,
          const std::vector<std::string>& summary = {});

  bool ok() const { return code_ == ErrorCode{}; }
  // The worst of all, by the order of cli.md: 70, 7, 5, 6, 4, 3, 1, 8; a signal and wrong usage
  // before them. 0: passed.
  ErrorCode code() const { return code_; }
  int exit_code() const;
  // All that was tested passed, but not all was tested.
  bool incomplete() const { return code_ == ErrorCode::incomplete && !error_; }
  const std::optional<Error>& error() const { return error_; }
  // Without the error. Missing measurements after a job broke off are no news.
  const std::vector<Reason>& reasons() const { return reasons_; }
  // A report that could not be written: counts in the exit code.
  void worsen(const Error& error);

 private:
  ErrorCode code_{};
  int signal_ = 0;
  std::optional<Error> error_;
  std::vector<Reason> reasons_;
};

// Culprits of failed trials between two ends: an end when at least half of its trials failed and
// another such end does not explain them, else the link between the two. For trials made once,
// without noise; blame.h knows better where they can be repeated. Pure.

struct EndTrial {
  size_t from = 0, to = 0;  // indexes of ends
  bool failed = false;
};
struct TrialWords {
  const char *one, *many;  // "path", "paths"
};
// `ends`: hosts, each a place of the trials.
std::vector<Culprit> blame_ends(std::span<const EndTrial> trials, std::span<const Host> ends,
                                const TrialWords& words);

}  // namespace collctl::cmd
