// Commands whose one rank on a host opens by itself all that it measures there (memory-test,
// gpu-test, burn-test). Threads: one.
#pragma once
#include <functional>
#include <string>

#include "cmd/cli/parse.h"
#include "cmd/measure/task.h"

namespace collctl::cmd {

// In the rank: its phases, and what `measure` returns as its record. Errors: usage: the job has
// several ranks; those of `measure`.
Status run_one_rank(const TaskContext& context,
                    const std::function<Result<std::string>()>& measure);
// In the launcher: runs the task with these options as `given` says, on one rank unless that says
// otherwise. Returns the rank's record. Errors: of the line, or what ended the job.
Result<std::string> ask_one_rank(const ParsedLine& given, const RankTask& task,
                                 std::string options);

}  // namespace collctl::cmd
