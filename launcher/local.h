// LocalJob: ranks as processes of this host. Forks, binds, watches, forwards their output by whole
// lines, ends them. No orphan: every rank gets PDEATHSIG and a process group of its own; the job is
// a subreaper; end() is SIGTERM, grace, SIGKILL to the groups. Threads: one.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "launcher/control.h"

namespace collctl::launcher {

struct RankProcess {                     // how to start one rank
  std::vector<std::string> argv;         // argv[0] is a path or a name to look up in PATH
  std::vector<std::string> environment;  // "NAME=value", complete
  bool control = true;                   // with the control descriptor (kControlFd)
  std::vector<int> cores;                // bind to these; empty: no binding
  bool null_stdin = true;
};

enum class EventKind : uint8_t { frame, line, exited };
struct Event {
  EventKind kind;
  int rank = -1;
  Frame frame;  // frame
  bool is_stderr = false;
  std::string line;     // line, without its end; `partial` when the process ended without one
  int exit_code = 0;    // exited: its code, or
  int exit_signal = 0;  //   the signal that ended it
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
  // when wake_fd is readable.
  Result<std::vector<Event>> wait(Deadline deadline, int wake_fd = -1);
  Status send(int rank, FrameType type, ByteView payload, Deadline deadline);
  void close_stdin(int rank);
  Status write_stdin(int rank, ByteView data, Deadline deadline);
  void signal_all(int signal_number);  // to the process groups
  // SIGTERM to all groups, SIGKILL to those left after `grace_s`; keeps delivering events into
  // `wait`.
  void end(double grace_s);

 private:
  LocalJob();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace collctl::launcher
