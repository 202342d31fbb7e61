// The header of a measurement: what runs where, gathered from all ranks. Collective; called by the
// measurement and the soak on the rank's thread.
#pragma once
#include <string>

#include "cmd/measure/bench.h"
#include "runtime/communicator/communicator.h"

namespace collctl::cmd {

struct HeaderFacts {
  bool windows = false;       // whether the header tells of windows
  std::string versus;         // what else is measured, in words
  std::string clocks;         // what throttles this rank's GPU (ClockWatch::at_first)
  uint64_t window_bytes = 0;  // that this rank has registered (BenchWindows)
  // With --split: this rank's group, whose links and windows count, and all groups.
  const runtime::Communicator* group = nullptr;
  const Groups* groups = nullptr;
};
// On rank 0 the header, without what only a measurement has; on the others it is empty.
Result<BenchHeader> gather_header(const RankSettings& settings, const HeaderFacts& facts,
                                  runtime::Communicator& communicator, Deadline deadline);
// Rank 0 hands a measurement's to its sink.
Status send_header(const BenchSpec& spec, HeaderFacts facts, runtime::Communicator& communicator,
                   BenchOut& out, Deadline deadline);

}  // namespace collctl::cmd
