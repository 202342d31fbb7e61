// LocalJob: ranks as processes of this host. Forks, binds, watches, forwards their output by whole
// lines, ends them. No orphan: every rank gets PDEATHSIG and a process group of its own, the job is
// a subreaper, a guard kills the groups should this process die; end() is SIGTERM, grace, SIGKILL.
// Threads: one, and it must outlive the job (PDEATHSIG follows the thread that forked). One job of
// a process at a time adopts orphans: with several, the first to end takes the others' strays
// along.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "launcher/control.h"

namespace collctl::launcher {

struct RankProcess {                     // how to start one rank
  std::vector<std::string> argv;         // argv[0] is a path or a name to look up in PATH, unless
  std::string path;                      //   this says what to execute
  std::vector<std::string> environment;  // "NAME=value", complete
  bool control = true;                   // with the control descriptor (kControlFd)
  std::vector<int> cores;                // bind to these; empty: no binding
  bool null_stdin = true;
};

enum class EventKind : uint8_t { frame, line, exited };
struct Event {
  EventKind kind = EventKind::exited;
  int rank = -1;
  Frame frame;  // frame
  bool is_stderr = false;
  std::string line;      // line, without its end
  bool partial = false;  // line: no newline followed (yet): stream ended, or longer than kMaxLine
  int exit_code = 0;     // exited: its code, or
  int exit_signal = 0;   //   the signal that ended it
};

class LocalJob {
 public:
  static Result<std::unique_ptr<LocalJob>> start(const std::vector<RankProcess>& ranks);
  ~LocalJob();  // ends what is left, without grace
  int size() const;
  int pid(int rank) const;
  bool running(int rank) const;
  int running_count() const;
  // The next events, waiting until the deadline for the first (none: empty). Also returns early
  // when a wake descriptor is readable, when a rank has taken its queued input, or when no rank is
  // left. Output of processes that a rank
  // left behind may follow the rank's exit.
  Result<std::vector<Event>> wait(Deadline deadline, int wake_fd = -1);
  Result<std::vector<Event>> wait(Deadline deadline, std::span<const int> wake_fds);
  Status send(int rank, FrameType type, ByteView payload, Deadline deadline);
  // Standard input of a rank with null_stdin == false. Data is queued and written by wait(); a full
  // queue is waited for until the deadline. Code lost when the rank has closed its end.
  Status write_stdin(int rank, ByteView data, Deadline deadline);
  size_t stdin_pending(int rank) const;  // bytes queued
  void close_stdin(int rank);            // once the queue is written
  void signal_all(int signal_number);    // to the process groups
  // SIGTERM to all groups now, SIGKILL (from `wait`) to those left after `grace_s`. Returns at
  // once; events keep coming from `wait` until running_count() is 0. A second call may only hasten
  // it.
  void end(double grace_s);

 private:
  LocalJob();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace collctl::launcher
