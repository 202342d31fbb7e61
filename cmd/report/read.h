// A report back from its JSON, as --json and -o FILE.json have written it. Used by `report` and by
// the kinds of files that are made of a document; nothing in the file is trusted. Threads: values.
#pragma once
#include <string>

#include "base/record.h"
#include "cmd/report/report.h"

namespace collctl::cmd {

// The JSON description (base/record.h) of a report, in parts: written by json.cc, read by
// read.cc. Threads: values.

void header_fields(Record& io, BenchReport& report);
void row_fields(Record& io, BenchReport& report, BenchRow& row);
void fields(Record& io, LossLine& loss);
void closing_fields(Record& io, BenchReport& report);
// Rows, closing and faults.
void results_fields(Record& io, BenchReport& report);

// A measurement: collctl.bench/1, or collctl.error/1 with what was measured before the error.
struct SavedReport {
  BenchReport report = {};
  Verdict verdict;    // with the error of a run that broke off
  int exit_code = 0;  // of the run
};
// Error usage: no such report; the message names the field.
Result<SavedReport> read_report(const std::string& json);

}  // namespace collctl::cmd
