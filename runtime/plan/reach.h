// Whether the ranks of a communicator can share a window, by what each has told of itself: planning
// asks before anything is made. Pure, the same on all ranks. Threads: any.
#pragma once
#include <span>
#include <string>

#include "kernels/cuda/launch.h"
#include "runtime/plan/rank_facts.h"
#include "runtime/request/settings.h"

namespace collctl::runtime {

// Why these ranks cannot share a window; empty when they can. Pure, the same on all ranks.
std::string why_no_window(std::span<const RankFacts> all_facts, const HostGroups& hosts,
                          const Settings& settings);

// Why these GPU ranks can share no window; empty when they may try. Pure, the same on all ranks.
std::string why_no_device_window(std::span<const RankFacts> all_facts, const HostGroups& hosts,
                                 const Settings& settings, const kernels::cuda::Launcher& launcher);

// Whether GPU ranks that share none can share host memory for window kernels. Pure, the same on
// all ranks.
bool may_have_pinned_window(std::span<const RankFacts> all_facts, const HostGroups& hosts,
                            const Settings& settings, const kernels::cuda::Launcher& launcher);

}  // namespace collctl::runtime
