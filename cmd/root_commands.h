// The commands that have no folder of their own. Handlers return the exit code, or an error that is
// printed by command_line, once.
#pragma once
#include <string>

#include "cmd/cli/parse.h"
#include "cmd/text/console.h"

namespace collctl::cmd {

Result<int> run_command(const ParsedLine& line, Console& console);
Result<int> collective_command(const ParsedLine& line, Console& console);
Result<int> report_command(const ParsedLine& line, Console& console);
Result<int> env_command(const ParsedLine& line, Console& console);
Result<int> version_command(const ParsedLine& line, Console& console);

// "0.1.0", and with the source's revision when the build knew it: "0.1.0 (v0.1.0-12-gabcdef0)".
std::string version_text();

// The hidden command `__rank`.

// A rank of ours, speaking frames on kControlFd. Returns the exit code.
int rank_main();

// The agent's entry points. Used by command_line.

int agent_main();
int verify_main(const std::string& hash, Console& console);

}  // namespace collctl::cmd
