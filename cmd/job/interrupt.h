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

class Signals {
 public:
  virtual ~Signals() = default;
  virtual int fd() const = 0;             // readable when a signal came; -1: none ever comes
  virtual std::optional<int> take() = 0;  // the next one, without waiting
  // After SIGTSTP: stops who launched the job, unless a SIGCONT has come since. Returns when it is
  // continued, which take() tells as SIGCONT.
  virtual void stop() = 0;
};

class Interrupts : public Signals {
 public:
  enum class Takes : uint8_t { ends, stops, all };
  // SIGINT, SIGTERM and SIGHUP; with `stops` also SIGTSTP and SIGCONT; with `all` also those that
  // are passed on to programs: SIGUSR1, SIGUSR2. A signal that is ignored (nohup) stays ignored.
  explicit Interrupts(Takes takes);
  explicit Interrupts(bool program) : Interrupts(program ? Takes::all : Takes::ends) {}
  ~Interrupts() override;
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  int fd() const override { return read_.get(); }  // -1: no pipe could be made
  std::optional<int> take() override;
  void stop() override;
  static bool ends(int signal_number);  // SIGINT, SIGTERM, SIGHUP

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
