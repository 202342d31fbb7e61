// A report back from its JSON, as --json and -o FILE.json have written it. Used by `report` and by
// the kinds of files that are made of a document; nothing in the file is trusted. Threads: values.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "cmd/report/report.h"

namespace collctl::cmd {

// Of a measurement: collctl.bench/1, or collctl.error/1 with what was measured before the error.
struct SavedReport {
  BenchReport report;
  Verdict verdict;    // with the error of a run that broke off
  int exit_code = 0;  // of the run
};
// The error of a run that has measured nothing (collctl.error/1); none: the text is no such thing.
std::optional<Error> read_failure(const std::string& text);
// Error usage: no such report; the message names the field.
Result<SavedReport> read_report(const std::string& json);

// What a document of any schema says was found, and how its run ended.
struct Judgement {
  std::string schema;
  std::string document;  // itself, or what was measured before the run broke off
  std::vector<Finding> checks;
  std::vector<Culprit> culprits;
  Verdict verdict{{}, std::nullopt};  // a document without one passed
  int exit_code = 0;
  Provenance made = {};
  std::string level = {};  // of a check
  double seconds = 0;      // that it took; 0: it does not say
};
// "2026-11-29T21:30:00+01:00, collctl 0.1.0, level quick, 55.4 s: collctl check"; empty: the
// document is of a version that did not say.
std::string made_text(const Judgement& judged);
Result<Judgement> read_judgement(const std::string& json);
// Of a document of our own: one that cannot be read is a defect, and its verdict says so.
Judgement judgement_of(const std::string& json);

}  // namespace collctl::cmd
