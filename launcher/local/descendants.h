// Strays: processes that a rank left behind and that this process inherited as a subreaper
// (PR_SET_CHILD_SUBREAPER). Used by LocalJob. The set of own children is one per process, like the
// children themselves; safe from any thread.
#pragma once
#include <vector>

#include "base/clock.h"

namespace collctl::launcher {

// Children that this process started on purpose; any other child is a stray.
void own_child(int pid);
void disown_child(int pid);

class Strays {
 public:
  // Becomes the subreaper; children that exist now and belong to others of this process are left
  // alone. The destructor gives the subreaper's place back.
  Strays();
  ~Strays();
  Strays(const Strays&) = delete;
  Strays& operator=(const Strays&) = delete;

  std::vector<int> list() const;  // of this moment; dead ones are reaped on the way
  void signal_all(int signal_number) const;
  // SIGKILL until none is left, also those that dying ones leave; false when some remained at the
  // deadline (uninterruptible sleep).
  bool kill_all(Deadline deadline) const;

 private:
  std::vector<int> before_;
  int was_subreaper_ = 0;
};

}  // namespace collctl::launcher
