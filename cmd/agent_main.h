// The agent's entry points. Used by command_line.
#pragma once
#include <string>

#include "cmd/text/console.h"

namespace collctl::cmd {

int agent_main();
int verify_main(const std::string& hash, Console& console);

}  // namespace collctl::cmd
