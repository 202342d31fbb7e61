// One rank's part in a run of groups (--split): which group it is in, the group's communicator, and
// the BenchRun over it. Called by bench_rank on the rank's thread.
#pragma once
#include "cmd/measure/bench.h"
#include "runtime/communicator/communicator.h"

namespace collctl::cmd {

// All ranks of the job together. What fails in one group ends all of them: its error comes back in
// the job's numbers of ranks, and the whole has been told.
// `continued`: the whole is of those that are left, and the groups are what is left of them.
Status run_in_group(const BenchSpec& spec, runtime::Communicator& whole, BenchSink& sink,
                    const Continued* continued = nullptr);

}  // namespace collctl::cmd
