#include "cmd/text/console.h"

#include <sys/ioctl.h>
#include <unistd.h>
#include <cerrno>
#include <utility>

#include "base/clock.h"
#include "base/env.h"
#include "base/format.h"
#include "base/printable.h"
#include "base/process_facts.h"
#include "base/wait.h"
#include "base/whole_number.h"

namespace collctl::cmd {

namespace {

constexpr int64_t kSilenceNs = 10'000'000'000;  // then somebody wonders what goes on
constexpr int64_t kDrawNs = 100'000'000;        // as often as eyes and terminals want

// The conventions: NO_COLOR (set and not empty) and TERM=dumb say no.
bool colours_welcome() {
  if (const auto no = base::environment("NO_COLOR"); no && !no->empty()) return false;
  const auto term = base::environment("TERM");
  return term && !term->empty() && *term != "dumb";
}

// Whether a person sees what is written there. mpirun gives ranks a terminal of its own and hands
// on what it reads from it: where that goes, the first process above us that has another file there
// says.
bool seen_on_terminal(int fd, bool under_engine) {
  if (isatty(fd) != 1) return false;
  if (!under_engine) return true;
  const std::string ours = base::open_file_of(::getpid(), fd);
  for (int pid = ::getppid(); pid > 1; pid = base::parent_process(pid)) {
    const std::string theirs = base::open_file_of(pid, fd);
    if (theirs != ours) return theirs.starts_with("/dev/pts/") || theirs.starts_with("/dev/tty");
  }
  return true;
}

}  // namespace

Console::Console(int out_fd, int err_fd, bool under_engine)
    : out_fd_(out_fd),
      err_fd_(err_fd),
      out_is_terminal_(seen_on_terminal(out_fd, under_engine)),
      err_is_terminal_(seen_on_terminal(err_fd, under_engine)),
      out_colours_(out_is_terminal_ && colours_welcome()),
      err_colours_(err_is_terminal_ && colours_welcome()),
      wrote_at_ns_(now_ns()) {}

void Console::set_colours(Colours colours) {
  if (colours == Colours::automatic) return;
  out_colours_ = err_colours_ = colours == Colours::always;
}

void Console::write_all(int fd, std::string_view text, int* failure) {
  wrote_at_ns_ = now_ns();
  while (!text.empty() && *failure == 0) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written > 0) {
      text.remove_prefix(size_t(written));
    } else if (written < 0 && errno == EAGAIN) {
      // Somebody shares the descriptor with a process that made it non-blocking: wait for room.
      pollfd room{fd, POLLOUT, 0};
      if (!base::poll_fds({&room, 1}, Deadline::after_seconds(60)).ok()) *failure = EAGAIN;
    } else if (written == 0 || errno != EINTR) {
      *failure = written == 0 ? EIO : errno;
    }
  }
}

void Console::out(std::string_view text) {
  wipe();
  write_all(out_fd_, base::printable(text, out_colours_), &out_errno_);
}

void Console::err(std::string_view text) {
  wipe();
  write_all(err_fd_, base::printable(text, err_colours_), &err_errno_);
}

void Console::note(const std::string& text) {
  err(format("collctl: {} {}\n", err_colour("33", "note:"), base::printable(text)));
}

void Console::print_error(const Error& error) {
  err(format("collctl: {} {}\n", err_colour("1;31", "error:"), base::printable(error.chain())));
  if (!error.hint.empty())
    err(format("collctl: {} {}\n", err_colour("36", "hint:"), base::printable(error.hint)));
}

std::string Console::out_colour(const char* sgr, std::string_view text) const {
  return out_colours_ ? format("\033[{}m{}\033[0m", sgr, base::printable(text)) : std::string(text);
}

std::string Console::err_colour(const char* sgr, std::string_view text) const {
  return err_colours_ ? format("\033[{}m{}\033[0m", sgr, base::printable(text)) : std::string(text);
}

int Console::out_width() const {
  constexpr int kElsewhere = 100;
  if (const auto width = base::whole_number(base::environment("COLUMNS").value_or(""));
      width && *width > 0)
    return *width;
  winsize window{};
  const bool known = out_is_terminal_ && ioctl(out_fd_, TIOCGWINSZ, &window) == 0;
  return known && window.ws_col > 0 ? window.ws_col : kElsewhere;
}

Status Console::out_status() const {
  if (out_errno_ == 0 || out_errno_ == EPIPE) return {};
  return base::errno_error(ErrorCode::unavailable, "cannot write to standard output", out_errno_);
}

bool Console::reader_gone() const {
  return out_errno_ == EPIPE;
}

void Console::wipe() {
  if (std::exchange(transient_width_, 0) > 0) write_all(err_fd_, "\r\033[K", &err_errno_);
}

void Console::transient(const std::string& text) {
  going_on_ = text;
  text.empty() ? wipe() : still();
}

void Console::still() {
  const int64_t now = now_ns();
  if (going_on_.empty()) return;
  if (!err_is_terminal_) {
    if (now - wrote_at_ns_ >= kSilenceNs) err(format("collctl: now: {}\n", going_on_));
    return;
  }
  if (now < draw_at_ns_) return;
  draw_at_ns_ = now + kDrawNs;
  winsize window{};
  size_t width = 80;
  if (ioctl(err_fd_, TIOCGWINSZ, &window) == 0 && window.ws_col > 1) width = window.ws_col;
  // A line that wraps could not be taken away again.
  const std::string shown = base::printable(going_on_).substr(0, width - 1);
  transient_width_ = shown.size();
  write_all(err_fd_, "\r\033[K" + shown, &err_errno_);
}

void Progress::phase(int rank, const std::string& name) {
  phases_[rank] = name;
  std::map<std::string, int> counts;
  for (const auto& [unused, phase] : phases_) ++counts[phase];
  std::string line = "starting:";
  for (const auto& [phase, count] : counts) line += format(" {} {}", count, phase);
  text(line);
}

void Progress::text(const std::string& text) {
  if (wanted_) console_.transient(text);
}

void Progress::clear() {
  console_.transient("");
}

}  // namespace collctl::cmd
