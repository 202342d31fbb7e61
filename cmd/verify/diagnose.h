// Diagnosis of wrong data: which ranks' outputs, which elements, and by a second run on tagged
// integers (tag_run.h) and the schedules of all ranks (schedule_trace.h) whose contribution is
// wrong, how, and on which hop it went wrong. Collective: called by bench_rank on every rank when
// any of them found wrong elements. Overwrites the buffers.
#pragma once
#include <vector>

#include "cmd/verify/fault.h"
#include "cmd/verify/tag_run.h"

namespace collctl::cmd {

inline constexpr size_t kMaxFaultRecords = 8;  // of one row; more ranks are summed up in the last

struct DiagnosisCase {
  runtime::Communicator& communicator;
  runtime::Stream& stream;
  const RowKey& key;
  Place place;
  RunBuffers buffers;
  CheckResult check;  // this rank's
  Deadline deadline;
};
// The findings, on rank 0; empty on the others.
Result<std::vector<DataFault>> diagnose(const DiagnosisCase& wrong);

}  // namespace collctl::cmd
