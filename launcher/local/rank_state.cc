#include "launcher/local/rank_state.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/format.h"

namespace collctl::launcher {
namespace {

// One stream gives way to the others after so many bytes: an output storm of one rank must not
// starve the rest, and what is not read stays in the pipe, which holds the writer back.
constexpr size_t kReadPerTurn = 64 << 10;
// After its exit all that a rank wrote is in the pipe already; a pipe holds at most this much.
constexpr size_t kReadAtExit = 1 << 20;

}  // namespace

RankState::RankState(int rank, Child child) : rank_(rank), child_(std::move(child)) {
  if (child_.control) control_ = std::make_unique<FrameChannel>(std::move(child_.control));
}

void RankState::add_interest(std::vector<pollfd>& fds) const {
  const auto add = [&](int fd, short what) {
    if (fd >= 0) fds.push_back({fd, what, 0});
  };
  add(child_.stdout_read.get(), POLLIN);
  add(child_.stderr_read.get(), POLLIN);
  if (control_) add(control_->fd(), POLLIN);
  if (!exited_) add(child_.pidfd.get(), POLLIN);
  if (stdin_pending() > 0) add(child_.stdin_write.get(), POLLOUT);
}

bool RankState::handle(std::vector<Event>& events) {
  flush_stdin();
  read_frames(events);
  read_stream(child_.stdout_read, out_, false, kReadPerTurn, events);
  read_stream(child_.stderr_read, err_, true, kReadPerTurn, events);
  return !exited_ && reap(events);
}

Event RankState::event_of(EventKind kind) const {
  Event event;
  event.kind = kind;
  event.rank = rank_;
  return event;
}

void RankState::add_lines(std::vector<Line>& lines, bool is_stderr,
                          std::vector<Event>& events) const {
  for (Line& line : lines) {
    Event event = event_of(EventKind::line);
    event.is_stderr = is_stderr;
    event.line = std::move(line.text);
    event.partial = line.open;
    events.push_back(std::move(event));
  }
  lines.clear();
}

void RankState::finish_stream(LineSplitter& splitter, bool is_stderr,
                              std::vector<Event>& events) const {
  std::vector<Line> lines;
  if (auto last = splitter.finish()) lines.push_back(std::move(*last));
  add_lines(lines, is_stderr, events);
}

void RankState::read_stream(base::Fd& fd, LineSplitter& splitter, bool is_stderr, size_t at_most,
                            std::vector<Event>& events) {
  char buffer[32 << 10];
  std::vector<Line> lines;
  for (size_t got = 0; fd && got < at_most;) {
    const ssize_t n = ::read(fd.get(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) {
      fd.reset();
      finish_stream(splitter, is_stderr, events);
      return;
    }
    got += size_t(n);
    splitter.feed({buffer, size_t(n)}, lines);
    add_lines(lines, is_stderr, events);
  }
}

void RankState::read_frames(std::vector<Event>& events) {
  while (control_) {
    auto frame = control_->poll_frame();
    if (frame && !*frame) return;
    Event event = event_of(EventKind::frame);
    if (frame) {
      event.frame = std::move(**frame);
      events.push_back(std::move(event));
      continue;
    }
    // The other end was closed, which the exit explains, or spoke nonsense, which nothing else
    // would tell: that becomes the rank's own error.
    const bool closed = frame.error().cause != Cause::malformed;
    control_.reset();
    if (closed) return;
    event.frame = {FrameType::error, encode_error(std::move(frame.error()).blame(rank_))};
    events.push_back(std::move(event));
  }
}

bool RankState::reap(std::vector<Event>& events) {
  siginfo_t info{};
  const int rc = ::waitid(P_PID, id_t(child_.pid), &info, WEXITED | WNOHANG);
  if (rc == 0 && info.si_pid == 0) return false;
  if (rc != 0 && errno == EINTR) return false;
  exited_ = true;
  // All that it said before the end comes before the event of the end.
  read_frames(events);
  read_stream(child_.stdout_read, out_, false, kReadAtExit, events);
  read_stream(child_.stderr_read, err_, true, kReadAtExit, events);
  finish_stream(out_, false, events);
  finish_stream(err_, true, events);
  control_.reset();
  child_.pidfd.reset();
  child_.stdin_write.reset();
  group_gone_ = ::kill(-child_.pid, 0) != 0 && errno == ESRCH;
  Event event = event_of(EventKind::exited);
  if (rc != 0) {  // somebody else reaped it (SIGCHLD ignored): how it ended is not known
    event.exit_code = 255;
  } else if (info.si_code == CLD_EXITED) {
    event.exit_code = info.si_status;
  } else {
    event.exit_signal = info.si_status;
  }
  events.push_back(std::move(event));
  return true;
}

void RankState::signal_group(int signal_number) const {
  // ESRCH (gone meanwhile) is what one wants; nothing else can fail for an own group.
  if (!group_gone_) ::kill(-child_.pid, signal_number);
}

Status RankState::queue_stdin(ByteView data) {
  if (!child_.stdin_write || stdin_ending_)
    return Error(ErrorCode::lost, format("rank {} has closed its standard input", rank_))
        .blame(rank_);
  stdin_queue_.append(reinterpret_cast<const char*>(data.data()), data.size());
  flush_stdin();
  return {};
}

void RankState::close_stdin() {
  stdin_ending_ = true;
  flush_stdin();
}

void RankState::flush_stdin() {
  while (child_.stdin_write && stdin_pending() > 0) {
    const ssize_t n = write_quietly(child_.stdin_write.get(), stdin_queue_.data() + stdin_taken_,
                                    stdin_pending());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n < 0) {  // the rank reads no more: what is left has no reader
      child_.stdin_write.reset();
      break;
    }
    stdin_taken_ += size_t(n);
  }
  stdin_queue_.clear();
  stdin_taken_ = 0;
  if (stdin_ending_) child_.stdin_write.reset();
}

}  // namespace collctl::launcher
