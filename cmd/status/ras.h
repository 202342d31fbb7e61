// `status --ras`: what NCCL's own RAS says of a job on this host, whoever started it. Pure but for
// the command. Threads: one.
#pragma once
#include <string>

#include "cmd/cli/parse.h"
#include "cmd/document/document.h"
#include "cmd/measure/nccl_ras.h"
#include "cmd/text/console.h"

namespace collctl::cmd {

struct RasReport {
  std::string address;  // that answered
  RasStatus status = {};
};
std::string ras_json(const RasReport& report);
// Untrusted. Errors: usage, with the field.
Result<RasReport> read_ras_report(const std::string& json);
// Exit code 1 where a process is missing. `json`: ras_json(), or the file that it was read from.
Document ras_document(const RasReport& report, std::string json);
// Errors: as of ask_ras().
Result<int> ras_command(const ParsedLine& line, const OutputOptions& output, Console& console);
void add_status_options(std::vector<Option>& table);

}  // namespace collctl::cmd
