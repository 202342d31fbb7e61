// The JSON descriptions (base/record.h) of what records of a measurement (json.cc) and its
// reports (cmd/report/json.cc) have in common. Threads: values.
#pragma once
#include "base/record.h"
#include "cmd/measure/bench.h"

namespace collctl::cmd {

inline constexpr int kMostRankNumber = 1 << 20;

// All but the version and the operation, which a report adds to.
void header_fields(Record& io, BenchHeader& header);
// Which group a row is of, if any.
void group_fields(Record& io, BenchRow& row);
void fields(Record& io, DataFault& fault);
void fields(Record& io, RowExpected& expected);
void fields(Record& io, RowTuned& tuned);
void fields(Record& io, LeftOut& out);
void fields(Record& io, BusyHost& host);
void fields(Record& io, ThrottledGpu& gpu);
void fields(Record& io, RankWaits& rank);
void fields(Record& io, StartCost& cost);

}  // namespace collctl::cmd
