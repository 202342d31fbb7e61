// LocalJob with real processes: how they start, what they say, how they end.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "tests/asleep.h"
#include "tests/unit/launcher/local/processes.h"

namespace local_local_tests {

using namespace collctl;
using namespace collctl::launcher;
using namespace collctl::launcher::testing;

TEST_CASE("exit codes and signals are told apart") {
  auto job = LocalJob::start({shell("exit 0"), shell("exit 7"), shell("kill -9 $$"),
                              shell("kill -SEGV $$"), shell("exit 255")});
  REQUIRE(job.ok());
  Seen seen = run_to_end(**job);
  REQUIRE(seen.exits.size() == 5);
  CHECK(seen.exits[0].exit_code == 0);
  CHECK(seen.exits[0].exit_signal == 0);
  CHECK(seen.exits[1].exit_code == 7);
  CHECK(seen.exits[2].exit_signal == SIGKILL);
  CHECK(seen.exits[3].exit_signal == SIGSEGV);
  CHECK(seen.exits[4].exit_code == 255);
  CHECK((*job)->running_count() == 0);
  CHECK_FALSE((*job)->running(2));
}

TEST_CASE("output comes by whole lines, before the exit, with its stream") {
  auto job = LocalJob::start({shell("printf 'a\\nb'; printf 'c\\nrest'; echo oops >&2; exit 3")});
  REQUIRE(job.ok());
  Seen seen = run_to_end(**job);
  CHECK(seen.out[0] == "a\nbc\nrest");
  CHECK(seen.err[0] == "oops\n");
  CHECK(seen.exits[0].exit_code == 3);
  REQUIRE_FALSE(seen.order.empty());
  CHECK(seen.order.back() == EventKind::exited);
}

TEST_CASE("a storm of output loses nothing and does not starve the others") {
  const std::string storm = "i=0; while [ $i -lt 40 ]; do seq 1 5000; i=$((i+1)); done";
  auto job = LocalJob::start({shell(storm), shell("head -c 8000000 /dev/zero"), shell("echo quiet"),
                              shell("seq 1 50000 >&2")});
  REQUIRE(job.ok());
  Seen seen = run_to_end(**job);
  CHECK(std::count(seen.out[0].begin(), seen.out[0].end(), '\n') == 200000);
  CHECK(seen.out[1].size() == 8000000);
  CHECK(seen.out[2] == "quiet\n");
  CHECK(std::count(seen.err[3].begin(), seen.err[3].end(), '\n') == 50000);
  for (int rank = 0; rank < 4; ++rank) CHECK(seen.exits[rank].exit_code == 0);
}

TEST_CASE("what is not read holds the writer back") {
  auto job = LocalJob::start({shell(many_lines(1000, 4000))});
  REQUIRE(job.ok());
  const uint64_t written = written_until_blocked((*job)->pid(0));
  CHECK((*job)->running(0));  // blocked on its pipe, nothing was buffered for it
  CHECK(written > 0);
  CHECK(written < 2'000'000);
  Seen seen = run_to_end(**job);
  CHECK(seen.out[0].size() == 1000 * 4001);
  CHECK(seen.exits[0].exit_code == 5);
}

TEST_CASE("a program that cannot be started is named") {
  RankProcess p = shell("");
  SECTION("not in PATH") {
    p.argv = {"no-such-program-anywhere"};
    auto job = LocalJob::start({shell("sleep 100"), p});
    REQUIRE_FALSE(job.ok());
    CHECK(job.error().code == ErrorCode::launch);
    CHECK(job.error().rank == 1);
    CHECK(job.error().chain() ==
          "start rank 1 of 2: cannot start 'no-such-program-anywhere': No such file or directory");
    CHECK_FALSE(job.error().hint.empty());
  }
  SECTION("a path that is not there") {
    p.argv = {"/no/such/file"};
    auto job = LocalJob::start({p});
    REQUIRE_FALSE(job.ok());
    CHECK(job.error().code == ErrorCode::launch);
    CHECK(job.error().message.find("/no/such/file") != std::string::npos);
  }
  SECTION("not executable") {
    p.argv = {"/etc/passwd"};
    auto job = LocalJob::start({p});
    REQUIRE_FALSE(job.ok());
    CHECK(job.error().message.find("Permission denied") != std::string::npos);
  }
  SECTION("its own PATH counts") {
    for (auto& entry : p.environment)
      if (entry.rfind("PATH=", 0) == 0) entry = "PATH=/nowhere";
    auto job = LocalJob::start({p});
    REQUIRE_FALSE(job.ok());
    CHECK(job.error().message.find("'sh'") != std::string::npos);
  }
  SECTION("cores that are not there") {
    p.cores = {8000};
    auto job = LocalJob::start({p});
    REQUIRE_FALSE(job.ok());
    CHECK(job.error().message.find("binding to cores") != std::string::npos);
  }
}

TEST_CASE("environment, binding and group are the rank's own") {
  const int core = base::affinity_cores().back();
  RankProcess p = shell("echo $MARK; grep Cpus_allowed_list /proc/self/status | tr -d ' \\t'");
  p.environment.push_back("MARK=yes");
  p.cores = {core};
  auto job = LocalJob::start({p});
  REQUIRE(job.ok());
  CHECK(::getpgid((*job)->pid(0)) == (*job)->pid(0));
  Seen seen = run_to_end(**job);
  CHECK(seen.out[0] == "yes\nCpus_allowed_list:" + std::to_string(core) + "\n");
}

TEST_CASE("nothing of the launcher leaks into a rank") {
  // 0, 1, 2 and the one that ls itself opens, besides what this test inherited.
  int inherited = 0;
  for (int fd = 3; fd < 1024; ++fd) {
    const int flags = ::fcntl(fd, F_GETFD);
    if (flags >= 0 && (flags & FD_CLOEXEC) == 0) ++inherited;
  }
  auto job = LocalJob::start({shell(":"), shell("ls /proc/self/fd | wc -l")});
  REQUIRE(job.ok());
  Seen seen = run_to_end(**job);
  CHECK(std::stoi(seen.out[1]) == 4 + inherited);
}

TEST_CASE("the limit of open files of a rank is the user's, not the launcher's raised one") {
  rlimit limit{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
  const rlim_t before = limit.rlim_cur;
  limit.rlim_cur = 512;
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
  {
    auto job = LocalJob::start({shell("ulimit -n")});
    REQUIRE(job.ok());
    Seen seen = run_to_end(**job);
    CHECK(seen.out[0] == "512\n");
  }
  limit.rlim_cur = before;
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

TEST_CASE("standard input: null, given, closed by the reader") {
  RankProcess counting = shell("wc -c"), first = shell("head -c 3"), null = shell("cat; echo end");
  counting.null_stdin = first.null_stdin = false;
  auto job = LocalJob::start({counting, first, null});
  REQUIRE(job.ok());
  const Bytes block(200000, 'x');
  Seen seen;
  const Deadline deadline = Deadline::after_seconds(60);
  for (int i = 0; i < 10; ++i) {
    REQUIRE((*job)->write_stdin(0, block, deadline).ok());
    gather(**job, seen, Deadline::after_ms(20));
  }
  (*job)->close_stdin(0);
  REQUIRE((*job)->write_stdin(1, Bytes(3, 'x'), deadline).ok());
  while ((*job)->running_count() > 0) gather(**job, seen, deadline);
  CHECK(std::stoi(seen.out[0]) == 2000000);
  CHECK(seen.out[1] == "xxx");
  CHECK(seen.out[2] == "end\n");
  CHECK((*job)->write_stdin(1, block, deadline).error().code == ErrorCode::lost);
  CHECK((*job)->write_stdin(2, block, deadline).error().code == ErrorCode::lost);
}

TEST_CASE("a rank that does not read its input runs into the deadline") {
  RankProcess p = shell("sleep 100");
  p.null_stdin = false;
  auto job = LocalJob::start({p});
  REQUIRE(job.ok());
  const Bytes block(1 << 20, 'x');
  REQUIRE((*job)->write_stdin(0, block, Deadline::after_seconds(10)).ok());
  CHECK((*job)->stdin_pending(0) > 0);
  CHECK((*job)->write_stdin(0, block, Deadline::after_ms(50)).error().code == ErrorCode::deadline);
}

TEST_CASE("a wait ends when a rank has taken all its input") {
  RankProcess p = shell("kill -STOP $$; head -c 1048576 >/dev/null; exec sleep 1000");
  p.null_stdin = false;
  auto job = LocalJob::start({p});
  REQUIRE(job.ok());
  const Deadline deadline = Deadline::after_seconds(60);
  while (base::process_state((*job)->pid(0)) != 'T' && !deadline.passed())
    base::sleep_until(Deadline::after_ms(5));
  REQUIRE((*job)->write_stdin(0, Bytes(1 << 20, 'x'), Deadline::after_seconds(10)).ok());
  // It takes what a pipe does not hold only now.
  bool waits = false;
  std::thread reader([&waits, pid = (*job)->pid(0)] {
    waits = test::wait_until_asleep(1);
    ::kill(pid, SIGCONT);
  });
  // Nothing else happens that would end it.
  auto events = (*job)->wait(deadline);
  reader.join();
  CHECK(waits);
  REQUIRE(events.ok());
  CHECK(events->empty());
  CHECK((*job)->stdin_pending(0) == 0);
  CHECK_FALSE(deadline.passed());
}

TEST_CASE("the control descriptor speaks frames both ways") {
  // The frame "phase: hi" written by a shell, then what the launcher sends echoed to stdout.
  // The descriptor does not block, so the shell asks until something is there.
  auto job = LocalJob::start(
      {shell("printf '\\2\\0\\0\\0\\3\\0\\0\\0hi' >&3; got=; while [ -z \"$got\" ]; do "
             "got=$(head -c 10 <&3 2>/dev/null | tail -c 2); sleep 0.01; done; printf %s \"$got\"",
             true)});
  REQUIRE(job.ok());
  const std::string payload = "yo";
  REQUIRE((*job)
              ->send(0, FrameType::config,
                     {reinterpret_cast<const uint8_t*>(payload.data()), payload.size()},
                     Deadline::after_seconds(10))
              .ok());
  Seen seen;
  const Deadline deadline = Deadline::after_seconds(30);
  while ((*job)->running_count() > 0 && !deadline.passed()) gather(**job, seen, deadline);
  REQUIRE(seen.frames.size() == 1);
  CHECK(seen.frames[0].frame.type == FrameType::phase);
  CHECK(seen.frames[0].frame.text() == "hi");
  CHECK(seen.out[0] == "yo");
  CHECK((*job)->send(0, FrameType::abort, {}, deadline).error().code == ErrorCode::lost);
}

TEST_CASE("nonsense on the control descriptor becomes the rank's error") {
  auto job = LocalJob::start({shell("printf '\\377\\377\\377\\377\\3\\0\\0\\0hi' >&3", true)});
  REQUIRE(job.ok());
  Seen seen = run_to_end(**job);
  REQUIRE(seen.frames.size() == 1);
  CHECK(seen.frames[0].frame.type == FrameType::error);
  const Error e = decode_error(seen.frames[0].frame.payload);
  CHECK(e.rank == 0);
  CHECK(e.message.find("malformed") != std::string::npos);
}

TEST_CASE("a wake descriptor ends the wait") {
  auto job = LocalJob::start({shell("sleep 100")});
  REQUIRE(job.ok());
  int fds[2];
  REQUIRE(::pipe(fds) == 0);
  base::Fd reading(fds[0]), writing(fds[1]);
  REQUIRE(::write(writing.get(), "x", 1) == 1);
  const Deadline deadline = Deadline::after_seconds(60);
  auto events = (*job)->wait(deadline, reading.get());
  REQUIRE(events.ok());
  CHECK(events->empty());
  CHECK_FALSE(deadline.passed());
}

TEST_CASE("64 ranks at once") {
  std::vector<RankProcess> ranks;
  for (int rank = 0; rank < 64; ++rank)
    ranks.push_back(shell("echo " + std::to_string(rank) + "; exit " + std::to_string(rank % 3)));
  auto job = LocalJob::start(ranks);
  REQUIRE(job.ok());
  CHECK((*job)->size() == 64);
  Seen seen = run_to_end(**job);
  REQUIRE(seen.exits.size() == 64);
  for (int rank = 0; rank < 64; ++rank) {
    CHECK(seen.out[rank] == std::to_string(rank) + "\n");
    CHECK(seen.exits[rank].exit_code == rank % 3);
  }
}

TEST_CASE("too few open files is said with numbers before anything starts") {
  rlimit limit{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
  const pid_t pid = ::fork();  // the hard limit cannot be raised again: in a process of its own
  REQUIRE(pid >= 0);
  if (pid == 0) {
    limit.rlim_cur = limit.rlim_max = 200;
    ::setrlimit(RLIMIT_NOFILE, &limit);
    auto job = LocalJob::start(std::vector<RankProcess>(100, shell("sleep 100")));
    const bool right = !job.ok() && job.error().code == ErrorCode::unavailable &&
                       job.error().message.find("664") != std::string::npos &&
                       job.error().message.find("200") != std::string::npos &&
                       job.error().hint.find("at most 22 ranks") != std::string::npos;
    limit.rlim_cur = limit.rlim_max = 64;
    ::setrlimit(RLIMIT_NOFILE, &limit);
    job = LocalJob::start(std::vector<RankProcess>(2, shell("sleep 100")));
    const bool none = !job.ok() && job.error().code == ErrorCode::unavailable &&
                      job.error().hint.find("at most") == std::string::npos;
    ::_exit(right && none ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

}  // namespace local_local_tests
