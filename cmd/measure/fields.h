// The JSON descriptions (base/json_record.h) of what records of a measurement (json.cc) and its
// reports (cmd/report/json.cc) have in common. Threads: values.
#pragma once
#include "base/json_record.h"
#include "cmd/measure/bench.h"

namespace collctl::cmd {

inline constexpr int kMostRankNumber = 1 << 20;

// All but the version and the operation, which a report adds to.
void header_fields(JsonRecord& io, BenchHeader& header);
// Which group a row is of, if any.
void group_fields(JsonRecord& io, BenchRow& row);
void fields(JsonRecord& io, DataFault& fault);
void fields(JsonRecord& io, RowExpected& expected);
void fields(JsonRecord& io, RowTuned& tuned);
void fields(JsonRecord& io, LeftOut& out);
void fields(JsonRecord& io, BusyHost& host);
void fields(JsonRecord& io, ThrottledGpu& gpu);
void fields(JsonRecord& io, RankWaits& rank);
void fields(JsonRecord& io, StartCost& cost);

}  // namespace collctl::cmd
