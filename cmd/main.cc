// The program: everything happens in cmd/command_line.
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <exception>

#include "base/env.h"
#include "base/rank_env.h"
#include "base/site_files.h"
#include "base/stop.h"
#include "base/thrown.h"
#include "cmd/command_line.h"
#include "launcher/adopt/adopt.h"

namespace {

// Started with closed standard streams, the next file opened would become one of them.
bool open_standard_streams() {
  for (int fd = 0; fd < 3; ++fd)
    if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd) return false;
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (!open_standard_streams()) return 70;
  collctl::base::stop_with_clock();
  // A rank of ours has all from who started it.
  if (argc < 2 || std::strcmp(argv[1], collctl::base::kRankCommand) != 0)
    collctl::base::read_site_files();
  collctl::base::take_secrets();
  // A reader that goes away is seen as a failed write; ranks of ours inherit that on purpose.
  std::signal(SIGPIPE, SIG_IGN);
  collctl::cmd::install_tables();
  const auto rank = collctl::launcher::adopted_rank(collctl::base::environment);
  collctl::cmd::Console console(1, 2, !rank || *rank);
  try {
    return collctl::cmd::command_line({argv + (argc > 0 ? 1 : 0), argv + argc}, console);
  } catch (const std::exception& error) {
    const collctl::Error known = collctl::base::thrown_error(error);
    console.print_error(known);
    return int(known.code);
  }
}
