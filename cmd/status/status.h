// `status`: what running jobs of this user do now, as their launchers say (cmd/job/status_door.h).
#pragma once
#include <span>

#include "cmd/cli/parse.h"
#include "cmd/document/document.h"
#include "cmd/job/job_status.h"
#include "cmd/text/console.h"

namespace collctl::cmd {

// One job: its ranks, then who waits for whom; several: a line each. Pure.
Document status_document(std::span<const JobNow> jobs);

// The command.
Result<int> status_command(const ParsedLine& line, Console& console);

}  // namespace collctl::cmd
