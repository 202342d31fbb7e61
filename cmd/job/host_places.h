// Which ranks each host of a job gets, with what, once all hosts are up. Threads: one.
#pragma once
#include <string>
#include <vector>

#include "base/result.h"
#include "cmd/job/start.h"

namespace collctl::cmd {

// Those that ranks there may use, as far as the host and the command line say.
int visible_gpus(const launcher::HostLink& host, const LaunchOptions& options);
HostGpus gpus_of(const launcher::HostLink& host, const LaunchOptions& options);
// All that the agents need to start the ranks. `program`: theirs; null: ours.
Result<launcher::RemoteStart> remote_start(const launcher::HostPool& pool,
                                           const LaunchOptions& options,
                                           const std::vector<std::string>* program);

}  // namespace collctl::cmd
