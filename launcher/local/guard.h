// The guard: a small process that outlives a launcher killed by SIGKILL for the moment it needs to
// kill what the launcher has started: the ranks' process groups, grandchildren included (PDEATHSIG
// reaches only the ranks themselves), and to remove the sockets that it and they have left. Owned
// by LocalJob or a job on hosts, used on its thread. It holds no descriptor but its own and ends
// when the launcher does. Killed alone, it leaves a launcher that goes on.
#pragma once
#include <memory>

#include "base/fd.h"
#include "base/result.h"

namespace collctl::launcher {

class Guard {
 public:
  // Forks the guard, which can keep up to `most_groups` (0: the ranks are others' to end).
  static Result<std::unique_ptr<Guard>> start(size_t most_groups);
  ~Guard();  // the guard ends; groups still added are killed
  int pid() const { return pid_; }
  Status add(int group);     // kill this group when the launcher dies
  Status remove(int group);  // it is gone: its number may be reused

 private:
  Guard(int pid, base::Fd fd) : pid_(pid), fd_(std::move(fd)) {}
  int pid_;
  base::Fd fd_;
};

}  // namespace collctl::launcher
