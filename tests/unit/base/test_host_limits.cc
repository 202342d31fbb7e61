#include "base/host_limits.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/catch.h"
#include "tests/skip.h"
#include "tests/unit/base/root_folder.h"

namespace host_limits_tests {

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
}

TEST_CASE("threads count against the limit of a user's processes", "[limits][may_skip]") {
  // Another user of whom nothing else runs: exact.
  if (::getuid() != 0)
    return test::skip("only root can be another user, of whom nothing else runs");
  const int counted = with_process_limit(100'000, [](rlim_t) {
    const uint64_t before = base::process_limit().used;
    uint64_t within = 0;
    std::thread([&] { within = base::process_limit().used; }).join();
    return before >= 1 && within == before + 1 ? 0 : 3;
  });
  CHECK(counted == 0);
}

TEST_CASE("what the processors have done, and how often the cgroup was throttled", "[base]") {
  namespace fs = std::filesystem;
  std::string name = (fs::temp_directory_path() / "collctl-load-XXXXXX").string();
  const fs::path root = ::mkdtemp(name.data());
  const auto file = [&](const std::string& at, const std::string& content) {
    fs::create_directories((root / at).parent_path());
    std::ofstream(root / at) << content;
  };
  file("proc/stat",
       "cpu  100 20 30 4000 50 6 7 800 0 0\ncpu0 40 10 15 2000 25 3 3 500 0 0\n"
       "cpu1 60 10 15 2000 25 3 4 300 0 0\nintr 12345\n");
  file("proc/self/cgroup", "0::/a/b\n");
  file("sys/fs/cgroup/cgroup.controllers", "cpu memory\n");
  file("sys/fs/cgroup/a/cpu.stat", "usage_usec 9\nnr_throttled 12\nthrottled_usec 1500000\n");
  file("sys/fs/cgroup/a/b/cpu.stat", "usage_usec 9\nnr_throttled 0\nthrottled_usec 0\n");
  const base::HostLoad load = base::host_load(root.string());
  file("sys/fs/cgroup/a/cpuset.cpus.effective", "1,5\n");
  const base::HostLoad second = base::host_load(root.string());
  file("proc/self/cgroup", "7:cpuset:/c\n4:cpu,cpuacct:/c\n");
  fs::remove(root / "sys/fs/cgroup/cgroup.controllers");
  file("sys/fs/cgroup/cpuset/c/cpuset.effective_cpus", "0\n");
  const base::HostLoad first = base::host_load(root.string());
  fs::remove_all(root);
  const double tick = 1.0 / double(::sysconf(_SC_CLK_TCK));
  CHECK(load.processors == 2);
  CHECK(std::abs(load.busy_s - 150 * tick) < 1e-9);
  CHECK(std::abs(load.stolen_s - 800 * tick) < 1e-9);
  // The processors that the cgroup may use alone.
  CHECK(second.processors == 1);
  CHECK(std::abs(second.busy_s - 85 * tick) < 1e-9);
  CHECK(std::abs(second.stolen_s - 300 * tick) < 1e-9);
  CHECK(second.throttled_times == 12);
  CHECK(first.processors == 1);
  CHECK(std::abs(first.busy_s - 65 * tick) < 1e-9);
  CHECK(load.throttled_times == 12);
  CHECK(std::abs(load.throttled_s - 1.5) < 1e-9);
  CHECK(load.own_s > 0);
  CHECK(base::host_load().processors > 0);
}

TEST_CASE("the limit of memory of a control group, those who share it, and the killed", "[base]") {
  const base::testing::Root root;
  root.file("proc/self/cgroup", "0::/job/step/task\n");
  root.file("sys/fs/cgroup/cgroup.controllers", "cpu memory\n");
  root.file("sys/fs/cgroup/memory.events", "oom 9\noom_kill 9\n");
  root.file("sys/fs/cgroup/job/memory.max", "4194304\n");
  root.file("sys/fs/cgroup/job/memory.current", "1048576\n");
  root.file("sys/fs/cgroup/job/step/memory.max", "max\n");
  root.file("sys/fs/cgroup/job/step/memory.events", "low 0\noom 3\noom_kill 2\n");
  const base::CgroupLimits limits = base::cgroup_limits(root.text());
  CHECK(limits.memory_bytes == 4194304);
  CHECK(limits.memory_used_bytes == 1048576);
  CHECK(limits.memory_group != 0);
  CHECK(base::memory_kills(root.text()) == 2);  // the nearest, without others' kills
  root.file("proc/self/cgroup", "0::/job\n");
  CHECK(base::cgroup_limits(root.text()).memory_group == limits.memory_group);
}

TEST_CASE("the same under the first version of control groups", "[base]") {
  const base::testing::Root root;
  root.file("proc/self/cgroup", "7:memory:/docker/a\n3:cpu,cpuacct:/\n");
  root.file("sys/fs/cgroup/memory/memory.limit_in_bytes", "419430400\n");
  root.file("sys/fs/cgroup/memory/memory.oom_control",
            "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n");
  const base::CgroupLimits limits = base::cgroup_limits(root.text());
  CHECK(limits.memory_bytes == 419430400);
  CHECK(limits.memory_group != 0);
  CHECK(base::memory_kills(root.text()) == 1);
}

}  // namespace host_limits_tests
