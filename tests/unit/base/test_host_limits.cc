#include "base/host_limits.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "tests/catch.h"

using namespace collctl;

namespace {

// Exit code of `body` in a process of its own, with a limit of processes; as root as another user,
// for root is not held to it.
template <class Body>
int with_process_limit(rlim_t most, Body body) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    rlimit limit{};
    ::getrlimit(RLIMIT_NPROC, &limit);
    limit.rlim_cur = std::min(most, limit.rlim_max);
    bool ready = ::setrlimit(RLIMIT_NPROC, &limit) == 0;
    if (::getuid() == 0) ready = ready && ::setresuid(60124, 60124, 60124) == 0;
    ::_exit(ready ? body(limit.rlim_cur) : 100);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 101;
}

}  // namespace

TEST_CASE("the limit of a user's processes, and how many there are", "[limits]") {
  const int ended = with_process_limit(100'000, [](rlim_t most) {
    const base::ProcessLimit alone = base::process_limit();
    if (alone.limit != most) return 1;
    if (alone.used < 1) return 2;
    return 0;
  });
  CHECK(ended == 0);
  // Threads count. Another user of whom nothing else runs: exact.
  if (::getuid() != 0) return;
  const int counted = with_process_limit(100'000, [](rlim_t) {
    const uint64_t before = base::process_limit().used;
    uint64_t within = 0;
    std::thread([&] { within = base::process_limit().used; }).join();
    return before >= 1 && within == before + 1 ? 0 : 3;
  });
  CHECK(counted == 0);
}
