// The life of a task's communicator around its work, on the rank's thread.
#pragma once
#include <functional>

#include "cmd/measure/bench.h"
#include "runtime/communicator/communicator.h"

namespace collctl::cmd {

class CostWatch;

// Options of every communicator, from settings and sink.
runtime::CommOptions comm_options(const RankSettings& settings, TaskSink& sink);
runtime::CommOptions comm_options(const TimedSettings& settings, TaskSink& sink);
// Makes it, does `work`, ends it; an error of one rank ends the others. `cost`, if any, counts
// while it is made.
Status with_communicator(const TaskContext& context, const runtime::CommOptions& options,
                         CostWatch* cost,
                         const std::function<Status(runtime::Communicator&)>& work);

}  // namespace collctl::cmd
