#include "launcher/local/descendants.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <set>

#include "base/host_facts.h"
#include "base/wait.h"

namespace collctl::launcher {
namespace {

struct OwnChildren {
  std::mutex mutex;
  std::set<int> pids;
};

OwnChildren& own_children() {
  static OwnChildren own;
  return own;
}

}  // namespace

void own_child(int pid) {
  OwnChildren& own = own_children();
  const std::lock_guard lock(own.mutex);
  own.pids.insert(pid);
}

void disown_child(int pid) {
  OwnChildren& own = own_children();
  const std::lock_guard lock(own.mutex);
  own.pids.erase(pid);
}

Strays::Strays() : before_(base::child_processes(::getpid())) {
  ::prctl(PR_GET_CHILD_SUBREAPER, &was_subreaper_);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
}

Strays::~Strays() {
  if (was_subreaper_ == 0) ::prctl(PR_SET_CHILD_SUBREAPER, 0);
}

std::vector<int> Strays::list() const {
  std::vector<int> strays;
  OwnChildren& own = own_children();
  for (const int pid : base::child_processes(::getpid())) {
    {
      const std::lock_guard lock(own.mutex);
      if (own.pids.count(pid) != 0) continue;
    }
    if (std::find(before_.begin(), before_.end(), pid) != before_.end()) continue;
    if (::waitpid(pid, nullptr, WNOHANG) == 0) strays.push_back(pid);
  }
  return strays;
}

void Strays::signal_all(int signal_number) const {
  for (const int pid : list()) ::kill(pid, signal_number);
}

bool Strays::kill_all(Deadline deadline) const {
  while (true) {
    const std::vector<int> left = list();
    if (left.empty()) return true;
    for (const int pid : left) ::kill(pid, SIGKILL);
    if (deadline.passed()) return false;
    base::sleep_until(Deadline::after_ms(2));
  }
}

}  // namespace collctl::launcher
