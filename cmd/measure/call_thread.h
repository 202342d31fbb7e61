// Calls of another's library (NCCL, MPI) that may never return: they run on a thread of their own,
// one at a time, which is left behind when one does not come back.
//
// Threads: one calls. The called function owns all that it touches, in case it is left behind.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/result.h"

namespace collctl::cmd {

class CallThread {
 public:
  // `hang_of`: the error of a call, by what it is called, that does not return in time.
  explicit CallThread(Error (*hang_of)(const std::string& what));
  ~CallThread();
  CallThread(const CallThread&) = delete;
  CallThread& operator=(const CallThread&) = delete;
  bool hangs() const { return hangs_; }
  Status run(Deadline deadline, const std::string& what, std::function<Status()> work);
  // `patience` is asked now and then while the work takes; its error ends the wait.
  Status run(std::function<Status()> work, const std::string& what,
             const std::function<Status()>& patience);

 private:
  struct Shared;
  static void loop(Shared& shared);

  Error (*hang_of_)(const std::string&);
  std::shared_ptr<Shared> shared_;
  bool hangs_ = false;
};

}  // namespace collctl::cmd
