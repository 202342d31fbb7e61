// The guard by itself: what it removes after a launcher, and what its own trouble costs one.
#include "launcher/local/guard.h"

#include <fcntl.h>
#include <sys/wait.h>

#include <filesystem>

#include "base/socket_folder.h"
#include "tests/unit/launcher/local/processes.h"

namespace local_guard_tests {

using namespace collctl;
using namespace collctl::launcher;
using namespace collctl::launcher::testing;

namespace {

// A file of the caller's process, in the folder that guards tidy.
std::string left_file() {
  auto folder = base::known_socket_folder();
  if (!folder.ok()) return "";
  const std::string path = base::socket_path(*folder, 0x9a4d);
  std::ofstream(path) << "";
  return path;
}

bool gone_file(const std::string& path) {
  const Deadline deadline = Deadline::after_seconds(30);
  while (std::filesystem::exists(path) && !deadline.passed())
    base::sleep_until(Deadline::after_ms(5));
  return !std::filesystem::exists(path);
}

}  // namespace

TEST_CASE(
    "a guard without groups removes the sockets of a killed launcher that nobody has reaped") {
  int fds[2];
  REQUIRE(::pipe2(fds, O_CLOEXEC) == 0);
  base::Fd reading(fds[0]), writing(fds[1]);
  const pid_t launcher = ::fork();
  REQUIRE(launcher >= 0);
  if (launcher == 0) {
    auto guard = Guard::start(0);
    char path[256] = {};
    left_file().copy(path, sizeof path - 1);
    if (!guard.ok() || ::write(writing.get(), path, sizeof path) != ssize_t(sizeof path))
      ::_exit(1);
    base::sleep_until(Deadline::after_seconds(1000));
    ::_exit(2);
  }
  char path[256] = {};
  REQUIRE(::read(reading.get(), path, sizeof path) == ssize_t(sizeof path));
  CHECK(std::filesystem::exists(path));
  REQUIRE(::kill(launcher, SIGKILL) == 0);
  CHECK(gone_file(path));
  int status = 0;
  REQUIRE(::waitpid(launcher, &status, 0) == launcher);
  CHECK(WIFSIGNALED(status));
}

TEST_CASE("a guard that is told farewell leaves the launcher's sockets alone") {
  auto guard = Guard::start(0);
  REQUIRE(guard.ok());
  const std::string path = left_file();
  const int pid = (*guard)->pid();
  guard->reset();
  CHECK_FALSE(alive(pid));
  CHECK(std::filesystem::exists(path));
  std::filesystem::remove(path);
}

TEST_CASE("a guard that is stopped or killed holds no launcher up") {
  for (const int number : {SIGSTOP, SIGKILL}) {
    auto guard = Guard::start(1);
    REQUIRE(guard.ok());
    const int pid = (*guard)->pid();
    REQUIRE(::kill(pid, number) == 0);
    if (number == SIGKILL) {
      REQUIRE(gone_within(pid, 30));
      CHECK_FALSE((*guard)->add(0x3fffffff).ok());
    }
    const auto began = now_ns();
    guard->reset();
    CHECK(double(now_ns() - began) / 1e9 < 5);
    CHECK(base::process_state(pid) == 0);  // reaped
  }
}

}  // namespace local_guard_tests
