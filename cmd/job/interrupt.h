// Signals as a descriptor: while an Interrupts lives, the signals that end, stop or poke a job are
// written to a pipe, which the job polls beside its ranks. One at a time in a process; the previous
// dispositions come back with the destructor. Handlers (not a mask) so that threads made earlier
// and children are not affected. Threads: the job's.
#pragma once
#include <signal.h>

#include <optional>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace collctl::cmd {

class Interrupts {
 public:
  enum class Takes : uint8_t { ends, stops, all };
  // SIGINT, SIGTERM and SIGHUP; with `stops` also SIGTSTP; with `all` also those that are passed on
  // to programs: SIGCONT, SIGUSR1, SIGUSR2. A signal that is ignored (nohup) stays ignored.
  explicit Interrupts(Takes takes);
  explicit Interrupts(bool program) : Interrupts(program ? Takes::all : Takes::ends) {}
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  int fd() const { return read_.get(); }  // readable when a signal came; -1: no pipe could be made
  std::optional<int> take();              // the next one, without waiting
  static bool ends(int signal_number);    // SIGINT, SIGTERM, SIGHUP

 private:
  struct Saved {
    int number;
    struct sigaction before;
  };
  base::Fd read_, write_;
  std::vector<Saved> saved_;
};

// "SIGKILL", or "signal 77" where there is no name.
std::string signal_name(int number);
Error interrupted_error(int signal_number);
// For who cannot end in order: says on standard error that the signal ended it, and dies by it.
void die_by_signal(int signal_number);

}  // namespace collctl::cmd
