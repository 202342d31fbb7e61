// THE table of options, for install_tables().
#pragma once
#include <vector>

#include "cmd/cli/command.h"

namespace collctl::cmd {

std::vector<Option> make_options();

}  // namespace collctl::cmd
