// `status`: what running jobs of this user do now, as their launchers say (cmd/job/status_door.h).
#pragma once
#include <span>
#include <string>

#include "cmd/cli/parse.h"
#include "cmd/job/job_status.h"
#include "cmd/text/console.h"

namespace collctl::cmd {

// One job: its ranks, then who waits for whom. Pure.
std::string status_text(const JobNow& job);
// Several: a line each. Pure.
std::string jobs_text(std::span<const JobNow> jobs);
std::string status_json(std::span<const JobNow> jobs);

// The command.
Result<int> status_command(const ParsedLine& line, Console& console);

}  // namespace collctl::cmd
