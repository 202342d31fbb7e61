// The meaning of a line's launch options. Errors: usage; unavailable. Threads: values.
#pragma once
#include "cmd/cli/parse.h"
#include "cmd/job/job.h"

namespace collctl::cmd {

// Reads the hostfile, if there is one.
Result<LaunchOptions> interpret_launch(const ParsedLine& line);
launcher::PlaceOptions place_options(const LaunchOptions& launch);

// The rows about the launch and about hosts.
void add_launch_options(std::vector<Option>& table);
void add_host_options(std::vector<Option>& table);

}  // namespace collctl::cmd
