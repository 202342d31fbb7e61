// One rank as LocalJob keeps it: its process, its streams, what is left to be written to it. Used
// by local.cc only, on the job's thread.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "launcher/local/lines.h"
#include "launcher/local/spawn.h"

namespace collctl::launcher {

inline constexpr size_t kMaxStdinQueue = 1 << 20;

class RankState {
 public:
  RankState(int rank, Child child);

  int rank() const { return rank_; }
  int pid() const { return child_.pid; }
  bool exited() const { return exited_; }
  bool group_gone() const { return group_gone_; }
  Child& child() { return child_; }
  FrameChannel* control() { return control_.get(); }

  // Appends the descriptors to wait for.
  void add_interest(std::vector<pollfd>& fds) const;
  // Takes what is there now: frames, lines, and at last the exit. True when the process ended in
  // this call.
  bool handle(std::vector<Event>& events);
  void signal_group(int signal_number) const;

  Status queue_stdin(ByteView data);
  size_t stdin_pending() const { return stdin_queue_.size() - stdin_taken_; }
  void close_stdin();
  void flush_stdin();

 private:
  void read_stream(base::Fd& fd, LineSplitter& splitter, bool is_stderr, size_t at_most,
                   std::vector<Event>& events);
  void read_frames(std::vector<Event>& events);
  bool reap(std::vector<Event>& events);
  Event event_of(EventKind kind) const;
  void add_lines(std::vector<Line>& lines, bool is_stderr, std::vector<Event>& events) const;
  void finish_stream(LineSplitter& splitter, bool is_stderr, std::vector<Event>& events) const;

  int rank_;
  Child child_;
  std::unique_ptr<FrameChannel> control_;
  LineSplitter out_, err_;
  std::string stdin_queue_;
  size_t stdin_taken_ = 0;
  bool stdin_ending_ = false;
  bool exited_ = false;
  bool group_gone_ = false;
};

}  // namespace collctl::launcher
