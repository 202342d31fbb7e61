// The header of a measurement: what runs where, gathered from all ranks. Collective; called by the
// measurement and the soak on the rank's thread.
#pragma once
#include <string>

#include "cmd/measure/bench.h"
#include "runtime/communicator/communicator.h"

namespace collctl::cmd {

struct HeaderFacts {
  std::string versus;         // what else is measured, in words
  std::string clocks;         // what throttles this rank's GPU (ClockWatch::at_first)
  uint64_t window_bytes = 0;  // that this rank has registered (BenchWindows)
};
// Rank 0 hands it to its sink.
Status send_header(const BenchSpec& spec, const HeaderFacts& facts,
                   runtime::Communicator& communicator, BenchSink& sink, Deadline deadline);

}  // namespace collctl::cmd
