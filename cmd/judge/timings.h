// Helpers for all judgements of a measurement's timings. Pure; part of cmd/judge.
#pragma once
#include <string>

#include "cmd/judge/bench.h"

namespace collctl::cmd {

template <class Visit>
void for_each_timing(const BenchRow& row, Visit visit) {
  if (row.out_of_place.measured) visit(row.out_of_place, "out of place");
  if (row.in_place.measured) visit(row.in_place, "in place");
}

// "allreduce 1 GiB float32 sum ring/simple"
std::string row_name(const BenchReport& report, const BenchRow& row);
// A failure, or what was not tested, as the row says.
Finding finding_of(const char* name, const ReasonRow& reason, std::string message);

}  // namespace collctl::cmd
