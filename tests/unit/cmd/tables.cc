// Every test of this program may ask the tables of commands and options.
#include "cmd/command_line.h"

namespace {

[[maybe_unused]] const bool installed = (collctl::cmd::install_tables(), true);

}  // namespace
