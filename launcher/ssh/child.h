// A child process with its three streams as pipes, moved without blocking by a poll loop. Used by
// the channels that are processes (this host, the system's ssh) and for `ssh -G`. Threads: one, and
// it must outlive a child that dies with it (PDEATHSIG follows the thread that forked).
#pragma once
#include <poll.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/result.h"

namespace collctl::launcher {

// A wakeup for what waits for descriptors only.
inline Deadline no_wakeup() {
  return Deadline::after_seconds(3600);
}

struct ChildCommand {
  std::vector<std::string> argv;  // argv[0] is a path, or a name to look up in PATH
  // A session of its own: no controlling terminal, and no signal of ours reaches it. Otherwise it
  // shares the terminal, to ask there, and ignores SIGINT and SIGQUIT.
  bool own_session = true;
  bool dies_with_us = false;  // killed when this process dies, and by the destructor
};

class ChildProcess {
 public:
  // Each of output and errors holds at most this; then the pipe is not read until the caller takes.
  static constexpr size_t kMostBuffered = 4 << 20;

  // Errors: code unavailable (fork, descriptors). A program that cannot be executed shows later, as
  // start_error().
  static Result<std::unique_ptr<ChildProcess>> start(const ChildCommand& command);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  void add_interest(std::vector<pollfd>& fds) const;
  Deadline wakeup() const;
  void progress();
  bool started() const { return !report_; }  // exec is done, or has failed
  const std::optional<Error>& start_error() const { return start_error_; }  // code launch
  bool over() const { return over_; }      // ended, and what it wrote has been read
  int exit_code() const { return code_; }  // with over; 128+N for signal N
  std::optional<Error> killed() const;     // with over: what a signal did to it; code lost
  void write(ByteView data);
  size_t pending() const { return queue_.size() - sent_; }
  void close_input();
  void kill();

  std::string output, errors;  // the caller erases what it has used

 private:
  ChildProcess() = default;
  void read_report();
  void feed_input();
  void reap();

  int pid_ = -1;
  bool dies_with_us_ = false, reaped_ = false, over_ = false, close_input_ = false;
  int code_ = 0, signal_ = 0;
  base::Fd pidfd_, in_, out_, err_, report_;
  std::string queue_;
  size_t sent_ = 0;
  std::string program_;
  std::optional<Error> start_error_;
};

}  // namespace collctl::launcher
