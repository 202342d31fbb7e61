// The JSON description (base/json_record.h) of a report, in parts: written by json.cc, read by
// read.cc. Threads: values.
#pragma once
#include "base/json_record.h"
#include "cmd/report/report.h"

namespace collctl::cmd {

void header_fields(JsonRecord& io, BenchReport& report);
void row_fields(JsonRecord& io, BenchReport& report, BenchRow& row);
void fields(JsonRecord& io, LossLine& loss);
void closing_fields(JsonRecord& io, BenchReport& report);
// Rows, closing and faults.
void results_fields(JsonRecord& io, BenchReport& report);
void error_fields(JsonRecord& io, Error& error, int& exit_code);

}  // namespace collctl::cmd
