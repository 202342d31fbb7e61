// The JSON description (base/record.h) of a report, in parts: written by json.cc, read by
// read.cc. Threads: values.
#pragma once
#include "base/record.h"
#include "cmd/report/report.h"

namespace collctl::cmd {

void header_fields(Record& io, BenchReport& report);
void row_fields(Record& io, BenchReport& report, BenchRow& row);
void fields(Record& io, LossLine& loss);
void closing_fields(Record& io, BenchReport& report);
// Rows, closing and faults.
void results_fields(Record& io, BenchReport& report);

}  // namespace collctl::cmd
