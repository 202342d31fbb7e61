// Ranks as threads of this process, as the job's loop sees ranks: all of a job (--rank-mode thread:
// for tests, sanitizers and debuggers), or the one of a job that others have started (join.cc).
#pragma once
#include <functional>
#include <memory>

#include "cmd/job/relay.h"
#include "cmd/job/start.h"

namespace collctl::cmd {

// The work of rank `rank`, in its thread.
using RankWork = std::function<Status(int rank, const FrameSink::Send& send)>;
// Those ranks of `size`, all of them begun when it returns, or none. They end by what aborts the
// tasks of this process (cmd/measure/running.h). A second signal, or one that does not end them
// in time, ends the process. One such group of a process at a time.
Result<std::unique_ptr<launcher::RankGroup>> start_threads(int size, const std::vector<int>& ranks,
                                                           RankWork work);
// All ranks of a job of its own.
Result<StartedJob> start_threads(const LaunchOptions& options, const TaskSpec& spec);

}  // namespace collctl::cmd
