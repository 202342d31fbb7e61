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
// Error usage: no such report; the message names the field.
Result<SavedReport> read_report(const std::string& json);

}  // namespace collctl::cmd
