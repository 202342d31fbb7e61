// Commands whose one rank on a host opens by itself all that it measures there (memory-test,
// gpu-test, burn-test). Threads: one.
#pragma once
#include <string>

#include <vector>

#include "cmd/document/document.h"
#include "cmd/measure/task.h"
#include "cmd/report/options.h"

namespace collctl::cmd {

// In the rank. Error usage: the job has several ranks.
Status check_one_rank(const TaskContext& context);
// In the launcher, first: what is printed and written. Errors: usage; a file that cannot be
// written.
Result<OutputOptions> output_of_one_rank(const ParsedLine& given);
void add_output_of_one_rank(std::vector<Option>& table, uint32_t own);
// In the launcher: runs the task with these options as `given` says, on one rank unless that says
// otherwise. Returns the rank's record. Errors: of the line, or what ended the job.
Result<std::string> ask_one_rank(const ParsedLine& given, const RankTask& task,
                                 std::string options);

}  // namespace collctl::cmd
