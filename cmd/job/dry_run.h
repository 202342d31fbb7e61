// `run --dry-run`: which ranks would run where, as a table or as collctl.run/1. Contacts nobody:
// what only the hosts know is "asked at start" (null in JSON).
#pragma once
#include <vector>

#include "base/json_writer.h"
#include "cmd/cli/parse.h"
#include "cmd/job/job.h"
#include "cmd/text/console.h"

namespace collctl::cmd {

// Error usage: an engine has started this process as a rank, and nothing is to be launched.
Status refuse_under_engine(const LaunchOptions& launch);

Result<int> dry_run(const ParsedLine& line, const LaunchOptions& launch, Console& console);

// All forms of collctl.run/1 begin with this: schema, version, op, program.
void write_run_head(JsonWriter& json, const ParsedLine& line);

// The roster of a job on hosts as data: per host how far it came, when, how, and why not further.
// Used by the reports of run. Pure.

// As "launch": {"hosts": [...]}; nothing for a job without hosts.
void write_launch(JsonWriter& json, const std::vector<HostEnd>& hosts);

}  // namespace collctl::cmd
