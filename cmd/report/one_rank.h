// Commands whose one rank on a host opens by itself all that it looks at there (memory-test,
// gpu-test, burn-test, nccl-facts). Threads: one.
#pragma once
#include <functional>
#include <string>

#include "cmd/cli/parse.h"
#include "cmd/document/document.h"
#include "cmd/measure/task.h"
#include "cmd/text/console.h"

namespace collctl::cmd {

// In the rank: its phases, and what `measure` returns as its record. Errors: usage: the job has
// several ranks; those of `measure`.
Status run_one_rank(const TaskContext& context,
                    const std::function<Result<std::string>()>& measure);
// The command: runs the task with these options as `given` says, on one rank unless that says
// otherwise, and prints and writes the Document that `shown` makes of the rank's record. Returns
// the document's exit code. Errors: of the line, of `shown`, or what ended the job.
Result<int> one_rank_command(
    const ParsedLine& given, Console& console, const RankTask& task, std::string options,
    const std::function<Result<Document>(const std::string& record)>& shown);

}  // namespace collctl::cmd
