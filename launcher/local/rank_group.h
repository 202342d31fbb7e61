// RankGroup: the started ranks of a job as whoever runs the job sees them: their events, their
// control frames, their standard input, their end. LocalJob is one on this host, RemoteJob one over
// agents on many hosts, and ranks may be threads (cmd/job/threads), which have no input and take no
// signals; the job's loop does not know which. Threads: one, and it must outlive the group.
#pragma once
#include <poll.h>

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "launcher/local/control.h"

namespace collctl::launcher {

// lost: the rank's host is gone (remote jobs only); nothing more is known about the rank.
enum class EventKind : uint8_t { frame, line, exited, lost };
struct Event {
  EventKind kind = EventKind::exited;
  int rank = -1;
  Frame frame;  // frame
  bool is_stderr = false;
  std::string line;      // line, without its end
  bool partial = false;  // line: no newline followed (yet): stream ended, or longer than kMaxLine
  int exit_code = 0;     // exited: its code, or
  int exit_signal = 0;   //   the signal that ended it
  // exited by SIGKILL: the limit of its control group, where the kernel has killed for lack of
  // memory there (base::kUnlimited: it has none, the host's is meant); else 0.
  uint64_t starved_at = 0;
  Error error;  // lost: what happened to the host, naming it and its ranks
};

class RankGroup {
 public:
  virtual ~RankGroup() = default;  // ends what is left, without grace
  virtual int size() const = 0;
  virtual int pid(int rank) const = 0;
  virtual Host host(int rank) const = 0;
  virtual bool running(int rank) const = 0;
  virtual int running_count() const = 0;
  // The next events, waiting until the deadline for the first (none: empty). Also returns early
  // when a wake descriptor is readable, when a rank has taken its queued input, or when no rank is
  // left. Output of processes that a rank left behind may follow the rank's exit.
  virtual Result<std::vector<Event>> wait(Deadline deadline, std::span<const int> wake_fds) = 0;
  // Called instead of wait() when events cannot be handled now: keeps connections alive, without
  // waiting. Events are kept, up to a bound, then the ranks are held back.
  virtual Status keep_alive() { return {}; }
  virtual Status send(int rank, FrameType type, ByteView payload, Deadline deadline) = 0;
  // Standard input of a rank with null_stdin == false. Data is queued and written by wait(); a full
  // queue is waited for until the deadline. Code lost when the rank has closed its end.
  virtual Status write_stdin(int, ByteView, Deadline) {
    return Error(ErrorCode::lost, "the rank has no standard input");
  }
  virtual size_t stdin_pending(int) const { return 0; }  // bytes queued
  virtual void close_stdin(int) {}                       // once the queue is written
  virtual void signal_all(int) {}                        // to the process groups
  virtual void kill(int) {}  // SIGKILL to the group of one that runs; its exit follows
  // SIGTERM to all groups now, SIGKILL (from `wait`) to those left after `grace_s`. Returns at
  // once; events keep coming from `wait` until running_count() is 0. A second call may only hasten
  // it.
  virtual void end(double grace_s) = 0;
  // The same because of a signal to this process. A second one may only hasten it.
  virtual void interrupt([[maybe_unused]] int signal_number, double grace_s) { end(grace_s); }
  // Takes down what every running process does now (on other hosts: as soon as they answer).
  virtual void look() {}
  // One letter of /proc/PID/stat as of the last look(): 0 gone, '?' not looked at yet.
  virtual char state(int rank) const = 0;
};

// The ranks of one host, for the agent there.
class HostRanks : public RankGroup {
 public:
  // wait() with descriptors to wait for in either direction; their revents are set.
  virtual Result<std::vector<Event>> wait_with(Deadline deadline, std::span<pollfd> wakes) = 0;
};

}  // namespace collctl::launcher
