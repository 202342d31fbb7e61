// Diagnosis of wrong data: which ranks' outputs, which elements, and by a second run on tagged
// integers (tag_run.h) and the schedules of all ranks (schedule_trace.h) whose contribution is
// wrong, how, and on which hop it went wrong. Collective: called by bench_rank on every rank when
// any of them found wrong elements. Overwrites the buffers.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "cmd/verify/tag_run.h"

namespace collctl::cmd {

// Errors that a data check found, as they are reported. Values.

// One thing wrong with the data, in words and as fields.
struct DataFault {
  int rank = -1;  // whose output
  uint64_t first_element = 0, first_byte = 0, last_byte = 0, bad_elements = 0;
  int channel = -1;
  uint64_t chunk = 0, step = 0;
  int peer = -1;  // whose contribution
  // Where it may have gone wrong: what `to` received from `from`, in all of the row's faults alike.
  struct Hop {
    int from = -1, to = -1;
    bool operator==(const Hop&) const = default;
  };
  std::vector<Hop> hops;  // empty: not known
  std::string kind;       // "missing", "doubled", "corrupted", "foreign", "unwritten"
  std::string message;
};

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
