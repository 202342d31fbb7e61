// Ending: grace, groups, strays that left their group, and a launcher that is itself killed.
// Leftovers are looked for by pid.
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "tests/unit/launcher/local/processes.h"

namespace local_orphans_tests {

using namespace collctl;
using namespace collctl::launcher;
using namespace collctl::launcher::testing;

namespace {

// Agents that tests before this one let go stay to be reaped (launcher/ssh/child.cc).
void reap_all() {
  while (::waitpid(-1, nullptr, WNOHANG) > 0) continue;
}

}  // namespace

TEST_CASE("end: SIGTERM first") {
  auto job =
      LocalJob::start({shell("trap 'echo bye; exit 9' TERM; echo $$; while :; do sleep 0.02; done"),
                       shell("sleep 1000")});
  REQUIRE(job.ok());
  Seen seen;
  pid_line(**job, seen);
  (*job)->end(30);
  const Deadline deadline = Deadline::after_seconds(20);
  while ((*job)->running_count() > 0 && !deadline.passed()) gather(**job, seen, deadline);
  REQUIRE(seen.exits.size() == 2);
  CHECK(seen.exits[0].exit_code == 9);
  CHECK(seen.out[0].find("bye") != std::string::npos);
  CHECK(seen.exits[1].exit_signal == SIGTERM);
}

TEST_CASE("end: a stopped rank is continued, so that it can act on SIGTERM") {
  auto job =
      LocalJob::start({shell("trap 'echo bye; exit 9' TERM; echo $$; kill -STOP $$; sleep 1000")});
  REQUIRE(job.ok());
  Seen seen;
  const int pid = pid_line(**job, seen);
  const Deadline deadline = Deadline::after_seconds(30);
  while (base::process_state(pid) != 'T' && !deadline.passed())
    base::sleep_until(Deadline::after_ms(5));
  REQUIRE(base::process_state(pid) == 'T');
  (*job)->end(1000);
  while ((*job)->running_count() > 0 && !deadline.passed()) gather(**job, seen, deadline);
  REQUIRE(seen.exits.size() == 1);
  CHECK(seen.exits[0].exit_code == 9);
  CHECK(seen.out[0].find("bye") != std::string::npos);
}

TEST_CASE("end: SIGKILL after the grace for a rank that ignores SIGTERM") {
  auto job = LocalJob::start({shell("trap '' TERM; echo $$; while :; do sleep 0.02; done")});
  REQUIRE(job.ok());
  Seen seen;
  const int pid = pid_line(**job, seen);
  const int64_t begin = now_ns();
  (*job)->end(0.3);
  while ((*job)->running_count() > 0) gather(**job, seen, Deadline::after_seconds(20));
  CHECK(now_ns() - begin >= 300'000'000);
  CHECK(seen.exits[0].exit_signal == SIGKILL);
  CHECK(gone_within(pid, 30));
}

TEST_CASE("end: a second call hastens, and a stopped rank is ended too") {
  auto job = LocalJob::start({shell("trap '' TERM; echo $$; while :; do sleep 0.02; done"),
                              shell("kill -STOP $$; sleep 1000")});
  REQUIRE(job.ok());
  Seen seen;
  pid_line(**job, seen);
  (*job)->end(1000);
  gather(**job, seen, Deadline::after_ms(200));
  CHECK((*job)->running(0));
  (*job)->end(0);
  const Deadline deadline = Deadline::after_seconds(20);
  while ((*job)->running_count() > 0 && !deadline.passed()) gather(**job, seen, deadline);
  CHECK(seen.exits[0].exit_signal == SIGKILL);
  CHECK(seen.exits[1].exit_signal != 0);
}

TEST_CASE("grandchildren end with the job: in the group, and out of it") {
  reap_all();
  int child = 0;
  SECTION("background of the shell") {
    auto job = LocalJob::start({shell("sleep 1000 & echo $!; exit 0")});
    REQUIRE(job.ok());
    Seen seen = run_to_end(**job);  // its end is not held up by the child that keeps the pipe open
    child = pid_line(**job, seen);
    CHECK(alive(child));
  }
  SECTION("with a session of its own, its parent gone") {
    auto job = LocalJob::start({shell("setsid sh -c 'echo $$; exec sleep 1000' & wait $!; :")});
    REQUIRE(job.ok());
    Seen seen;
    child = pid_line(**job, seen);
    CHECK(alive(child));
  }
  SECTION("daemon: double fork and setsid") {
    auto job = LocalJob::start({shell("(setsid sh -c 'echo $$; exec sleep 1000' &) ; exit 0")});
    REQUIRE(job.ok());
    Seen seen = run_to_end(**job);
    child = pid_line(**job, seen);
    CHECK(alive(child));
  }
  REQUIRE(child > 1);
  CHECK(gone_within(child, 30));
  CHECK(base::child_processes(::getpid()).empty());
}

TEST_CASE("the destructor ends everything at once") {
  reap_all();
  int pid = 0;
  {
    auto job =
        LocalJob::start({shell("trap '' TERM INT HUP; echo $$; while :; do sleep 0.02; done")});
    REQUIRE(job.ok());
    Seen seen;
    pid = pid_line(**job, seen);
  }
  CHECK_FALSE(alive(pid));
  CHECK(base::child_processes(::getpid()).empty());
}

TEST_CASE("signals are forwarded to the groups") {
  // The rank's child is up when it reports, and hears the signal as well.
  auto job = LocalJob::start(
      {shell("trap : USR1; sh -c \"trap 'exit 5' USR1; echo 1; while :; do sleep 0.02; done\" & "
             "wait $!; wait $!; exit $?")});
  REQUIRE(job.ok());
  Seen seen;
  pid_line(**job, seen);
  (*job)->signal_all(SIGUSR1);
  CHECK(run_to_end(**job).exits[0].exit_code == 5);
}

TEST_CASE("one rank is killed, also a stopped one, and the others stay") {
  auto job = LocalJob::start({shell("echo $$; sleep 777"), shell("kill -STOP $$; sleep 777")});
  REQUIRE(job.ok());
  Seen seen;
  pid_line(**job, seen);
  (*job)->kill(1);
  while ((*job)->running_count() > 1) gather(**job, seen, Deadline::after_seconds(20));
  CHECK(seen.exits[1].exit_signal == SIGKILL);
  CHECK((*job)->running(0));
  (*job)->kill(1);  // one that is gone is nobody's
  CHECK((*job)->running(0));
}

TEST_CASE("a launcher killed by SIGKILL leaves nothing: ranks, their children, the guard") {
  // The helper process is the launcher; it sends the pids through a pipe and is killed.
  int fds[2];
  REQUIRE(::pipe2(fds, O_CLOEXEC) == 0);
  base::Fd reading(fds[0]), writing(fds[1]);
  // Orphans come to this process, so that they can be seen and reaped here.
  REQUIRE(::prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
  const pid_t launcher = ::fork();
  REQUIRE(launcher >= 0);
  if (launcher == 0) {
    auto job = LocalJob::start(
        {shell("sleep 1000 & echo $!; wait"), shell("trap '' TERM; sleep 1000 & wait")});
    if (!job.ok()) ::_exit(1);
    Seen seen;
    while (seen.out[0].find('\n') == std::string::npos) {
      auto events = (*job)->wait(Deadline::after_seconds(30));
      if (!events.ok()) ::_exit(2);
      for (const Event& e : *events)
        if (e.kind == EventKind::line) seen.out[e.rank] += e.line + "\n";
    }
    std::vector<int> pids{(*job)->pid(0), (*job)->pid(1), std::stoi(seen.out[0])};
    for (const int child : base::child_processes(::getpid())) pids.push_back(child);
    while (pids.size() < 8) pids.push_back(0);
    if (::write(writing.get(), pids.data(), 8 * sizeof(int)) != ssize_t(8 * sizeof(int)))
      ::_exit(3);
    base::sleep_until(Deadline::after_seconds(1000));
    ::_exit(4);
  }
  int pids[8] = {};
  REQUIRE(::read(reading.get(), pids, sizeof pids) == ssize_t(sizeof pids));
  int known = 0;
  for (const int pid : pids) {
    if (pid == 0) continue;
    CHECK(alive(pid));
    ++known;
  }
  CHECK(known >= 5);  // two ranks, a grandchild, and as children: the two ranks and the guard
  REQUIRE(::kill(launcher, SIGKILL) == 0);
  int status = 0;
  REQUIRE(::waitpid(launcher, &status, 0) == launcher);
  CHECK(WIFSIGNALED(status));
  for (const int pid : pids)
    if (pid != 0) CHECK(gone_within(pid, 30));
  while (::waitpid(-1, nullptr, WNOHANG) > 0) {
  }
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
}

}  // namespace local_orphans_tests
