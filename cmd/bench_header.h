// The header of a measurement: what runs where, gathered from all ranks. Collective; called by the
// measurement and the soak on the rank's thread.
#pragma once
#include <string>

#include "cmd/bench.h"
#include "runtime/communicator.h"

namespace collctl::cmd {

// Rank 0 hands it to its sink. `versus`: what else is measured, in words.
Status send_header(const BenchSpec& spec, runtime::Communicator& communicator,
                   const std::string& versus, BenchSink& sink, Deadline deadline);

}  // namespace collctl::cmd
