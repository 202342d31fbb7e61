// `status --ras`: what NCCL's own RAS says of a job on this host, whoever started it. Pure but for
// the command. Threads: one.
#pragma once
#include <string>

#include "cmd/cli/parse.h"
#include "cmd/document/document.h"
#include "cmd/measure/nccl_ras.h"
#include "cmd/text/console.h"

namespace collctl::cmd {

std::string ras_text(const std::string& address, const RasStatus& status);
std::string ras_json(const std::string& address, const RasStatus& status);
// 1 where a process is missing. Errors: as of ask_ras().
Result<int> ras_command(const ParsedLine& line, const OutputOptions& output, Console& console);
void add_status_options(std::vector<Option>& table);

}  // namespace collctl::cmd
