// One rank's process: pipes, control socket, fork, exec. Used by LocalJob only, on its thread. The
// Child owns this side's descriptors; the process itself is LocalJob's to end and reap.
#pragma once
#include <sys/resource.h>

#include "base/fd.h"
#include "base/result.h"
#include "base/wait.h"
#include "launcher/local/local.h"

namespace collctl::launcher {

struct Child {
  int pid = -1;
  base::Fd pidfd;  // empty on kernels without pidfd_open: then it is polled for
  base::Fd control, stdin_write, stdout_read, stderr_read;
  base::Fd exec_report;  // closes when exec worked, else carries an ExecFailure
  std::string path;      // what was executed
};

// Forks and executes; the child is the leader of a group of its own. `files` is the limit of open
// files the rank gets. A missing program is an error of code launch, a limit that was reached
// is `unavailable`.
Result<Child> spawn(const RankProcess& process, const rlimit& files);
// Whether exec worked in the child; waits for its report until the deadline.
Status exec_result(Child& child, Deadline deadline);

// pidfd_open(2), or an empty Fd where the kernel has none.
base::Fd open_pidfd(int pid);

// "signal 9 (SIGKILL)".
std::string signal_text(int number);

// write(2) on a pipe without the SIGPIPE that a vanished reader causes.
ssize_t write_quietly(int fd, const void* from, size_t size);

}  // namespace collctl::launcher
