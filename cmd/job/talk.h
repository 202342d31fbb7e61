// A launch's words to people, through the console.
#pragma once
#include "cmd/job/job.h"
#include "cmd/text/console.h"

namespace collctl::cmd {

LaunchOptions::Talk console_talk(Console& console, bool quiet);

}  // namespace collctl::cmd
