// The planner's view of a communicator of CPU ranks, from the facts of all ranks. Pure; every rank
// comes to the same but for its own places. Called at start-up of a communicator, and by `plan` for
// a job that does not run. Threads: any.
#pragma once
#include <span>

#include "base/processors.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/rank_facts.h"
#include "runtime/plan/shape.h"
#include "runtime/request/settings.h"

namespace collctl::runtime {

// `hosts` of group_by_host over their facts.
CommShape make_shape(int rank, std::span<const RankFacts> all_facts, const HostGroups& hosts,
                     const Settings& settings);

// The shape at rank 0 of a job on `nodes` such machines with `ranks` ranks each, bound to nothing.
CommShape hypothetical_shape(const base::Processors& processors, int nodes, int ranks,
                             const Settings& settings, const Calibration& calibration = {});

}  // namespace collctl::runtime
