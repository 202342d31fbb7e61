// A report back from its JSON (collctl.bench/1, or collctl.error/1 with what was measured before
// the error), as --json and -o FILE.json have written it. Used by `report`; nothing in the file is
// trusted. Threads: values.
#pragma once
#include <optional>
#include <string>

#include "cmd/report/report.h"

namespace collctl::cmd {

struct SavedReport {
  BenchReport report;
  Verdict verdict;
  std::optional<Error> job_error;  // the run broke off
  int exit_code = 0;               // of the run
};
// Error usage: no such report; the message names the field.
Result<SavedReport> read_report(const std::string& json);

}  // namespace collctl::cmd
