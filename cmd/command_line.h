// The command line from its words to its exit code. Called by main (and by tests); one thread.
#pragma once
#include <string>
#include <vector>

#include "cmd/text/console.h"

namespace collctl::cmd {

int command_line(const std::vector<std::string>& arguments, Console& console);

// Gives THE tables of commands and options to cmd/cli. First of all; once.
void install_tables();

}  // namespace collctl::cmd
