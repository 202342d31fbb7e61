#include "launcher/local/guard.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "base/log.h"
#include "base/socket.h"
#include "base/socket_folder.h"
#include "base/wait.h"
#include "launcher/local/descendants.h"

namespace collctl::launcher {
namespace {

using base::Fd;

// The launcher reads nothing from the guard, and the guard empties its socket at once.
constexpr int64_t kSendMs = 5000;
constexpr double kKilledSeconds = 2;  // for killed ranks to be gone
constexpr int32_t kFarewell = 0;

void close_all_but(int keep) {
#ifdef SYS_close_range
  if (::syscall(SYS_close_range, unsigned(keep) + 1, ~0u, 0) == 0) {
    for (int fd = 0; fd < keep; ++fd) ::close(fd);
    return;
  }
#endif
  const long most = std::min(::sysconf(_SC_OPEN_MAX), 65536L);
  for (int fd = 0; fd < most; ++fd)
    if (fd != keep) ::close(fd);
}

// The guard's whole life, in the forked child: no allocation (`groups` has its capacity already),
// async-signal-safe calls only. A positive number adds a group, a negative one removes it;
// kFarewell comes from a launcher that goes in order.
[[noreturn]] void watch(int fd, int launcher, std::vector<int32_t>& groups) {
  ::setsid();  // signals of the terminal and to the launcher's group do not reach it
  sigset_t all;
  sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  ::prctl(PR_SET_NAME, "collctl-guard");
  close_all_but(fd);
  bool farewell = false;
  while (true) {
    int32_t number = 0;
    const ssize_t n = ::recv(fd, &number, sizeof number, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
      pollfd p{fd, POLLIN, 0};
      // Ends when a number arrives or the launcher's end is closed; the hour only bounds one wait.
      if (!base::poll_fds({&p, 1}, Deadline::after_seconds(3600))) ::_exit(1);
      continue;
    }
    if (n <= 0) break;
    if (number == kFarewell) farewell = true;
    if (number > 0 && groups.size() < groups.capacity()) groups.push_back(number);
    if (number < 0) groups.erase(std::remove(groups.begin(), groups.end(), -number), groups.end());
  }
  for (const int32_t group : groups) ::kill(-group, SIGKILL);
  // Removes socket folders that the ranks and the launcher left, once they are gone.
  const Deadline gone = Deadline::after_seconds(kKilledSeconds);
  for (const int32_t group : groups)
    while (::kill(-group, 0) == 0 && !gone.passed()) base::sleep_until(Deadline::after_ms(2));
  if (!farewell || !groups.empty()) base::tidy_socket_folders(farewell ? 0 : launcher);
  ::_exit(0);
}

}  // namespace

Result<std::unique_ptr<Guard>> Guard::start(size_t most_groups) {
  int fds[2];
  // Packets, so that a number is never cut.
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) != 0)
    return base::errno_error(ErrorCode::unavailable, "socket to the guard process", errno);
  Fd mine(fds[0]), theirs(fds[1]);
  std::vector<int32_t> groups;
  groups.reserve(most_groups);
  const pid_t launcher = ::getpid(), pid = ::fork();
  if (pid < 0) {
    Error e = base::errno_error(ErrorCode::unavailable, "fork the guard process", errno);
    e.hint = "raise the limit on processes (ulimit -u, pids.max of a container) or on memory";
    return e;
  }
  if (pid == 0) watch(theirs.get(), launcher, groups);
  own_child(pid);
  return std::unique_ptr<Guard>(new Guard(pid, std::move(mine)));
}

Status Guard::add(int group) {
  const int32_t number = group;
  return base::write_exact(fd_.get(), &number, sizeof number, Deadline::after_ms(kSendMs));
}

Status Guard::remove(int group) {
  const int32_t number = -group;
  return base::write_exact(fd_.get(), &number, sizeof number, Deadline::after_ms(kSendMs));
}

Guard::~Guard() {
  disown_child(pid_);
  // One that is gone need not be told.
  static_cast<void>(
      base::write_exact(fd_.get(), &kFarewell, sizeof kFarewell, Deadline::after_ms(0)));
  fd_.reset();            // what the guard waits for
  ::kill(pid_, SIGCONT);  // a stopped one would keep the job, and its beats, waiting
  const Deadline deadline = Deadline::after_seconds(1);
  while (true) {
    const pid_t done = ::waitpid(pid_, nullptr, WNOHANG);
    if (done == pid_ || (done < 0 && errno != EINTR)) return;
    if (deadline.passed()) break;
    base::sleep_until(Deadline::after_ms(1));
  }
  COLL_WARN("guard process {} did not exit: killed", pid_);
  ::kill(pid_, SIGKILL);
}

}  // namespace collctl::launcher
