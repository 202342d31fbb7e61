// `status` and a job that takes its time to answer.
#include "cmd/status/status.h"

#include <fcntl.h>
#include <unistd.h>

#include <thread>

#include "base/format.h"
#include "base/wait.h"
#include "cmd/job/job_status.h"
#include "cmd/job/status_door.h"
#include "tests/unit/cmd/cli/option_lines.h"

namespace status_status_tests {

using namespace collctl;
using namespace collctl::cmd;
using namespace collctl::cmd::testing;

TEST_CASE("a job that is named may take longer for its answer than one of many", "[status]") {
  auto door = StatusDoor::open();
  REQUIRE(door.ok());
  std::thread job([&] {
    pollfd asked{(*door)->fd(), POLLIN, 0};
    const auto ready = base::poll_fds({&asked, 1}, Deadline::after_seconds(60));
    if (!ready || !(*door)->take()) return;
    // time is what is tested: more than one of many jobs may take
    base::sleep_until(Deadline::after_seconds(3.5));
    JobNow now;
    now.pid = ::getpid();
    (*door)->answer(json_of(now));
  });
  Console console(-1, -1);
  const auto code = status_command(good(format("status {}", ::getpid())), console);
  job.join();
  INFO((code ? "" : code.error().chain()));
  REQUIRE(code.ok());
  CHECK(*code == 0);
}

}  // namespace status_status_tests
