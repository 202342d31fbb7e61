#include "launcher/ssh/child.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>

#include "base/format.h"
#include "base/wait.h"
#include "launcher/local/descendants.h"
#include "launcher/local/spawn.h"

namespace collctl::launcher {
namespace {

using base::errno_error;
using base::Fd;

constexpr int kLowestChildFd = 16;         // above the numbers the child's descriptors are moved to
constexpr int64_t kKillMs = 2000;          // a killed child is a zombie long before
constexpr int64_t kReapPollMs = 20;        // where there are no pidfds
constexpr size_t kChildReadBytes = 65536;  // one read

Result<Fd> lift(Fd low) {
  const int high = ::fcntl(low.get(), F_DUPFD_CLOEXEC, kLowestChildFd);
  // A limit below that number is said to be an invalid argument.
  if (high < 0) return errno_error(ErrorCode::unavailable, "pipe to a child process", EMFILE);
  return Fd(high);
}

// `mine` does not block, `theirs` does.
Status make_pipe(Fd& mine, Fd& theirs, bool i_read) {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0)
    return errno_error(ErrorCode::unavailable, "pipe to a child process", errno);
  Fd read_end(fds[0]), write_end(fds[1]);
  COLL_ASSIGN(mine, lift(std::move(i_read ? read_end : write_end)));
  COLL_ASSIGN(theirs, lift(std::move(i_read ? write_end : read_end)));
  if (::fcntl(mine.get(), F_SETFL, ::fcntl(mine.get(), F_GETFL) | O_NONBLOCK) != 0)
    return errno_error(ErrorCode::defect, "O_NONBLOCK", errno);
  return {};
}

struct Far {  // the child's ends
  Fd in, out, err, report;
};

// In the forked child: async-signal-safe calls only, never returns.
[[noreturn]] void become(const ChildCommand& command, char* const* argv, const Far& far,
                         pid_t parent) {
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  for (int number = 1; number < NSIG; ++number)
    if (number != SIGKILL && number != SIGSTOP) ::sigaction(number, &standard, nullptr);
  if (command.own_session) {
    ::setsid();
  } else {
    standard.sa_handler = SIG_IGN;
    ::sigaction(SIGINT, &standard, nullptr);
    ::sigaction(SIGQUIT, &standard, nullptr);
  }
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  if (command.dies_with_us) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    // The parent may have died before: then nobody will ever signal.
    if (::getppid() != parent) ::_exit(127);
  }
  if (::dup2(far.in.get(), 0) >= 0 && ::dup2(far.out.get(), 1) >= 0 &&
      ::dup2(far.err.get(), 2) >= 0) {
#ifdef SYS_close_range
    // Libraries open descriptors without close-on-exec. 4: CLOSE_RANGE_CLOEXEC.
    ::syscall(SYS_close_range, 3u, ~0u, 4u);
#endif
    ::execvp(argv[0], argv);
  }
  const int failure = errno;
  // Best effort: a parent that cannot be told sees exit code 127.
  [[maybe_unused]] const ssize_t n = ::write(far.report.get(), &failure, sizeof failure);
  ::_exit(127);
}

// Reads what is there while the buffer has room; the descriptor is closed at the end of the stream.
void read_all(Fd& fd, std::string& buffer) {
  std::array<char, kChildReadBytes> piece;
  while (fd && buffer.size() < ChildProcess::kMostBuffered) {
    const ssize_t n = ::read(fd.get(), piece.data(), piece.size());
    if (n > 0) {
      buffer.append(piece.data(), size_t(n));
    } else if (n == 0 || (errno != EINTR && errno != EAGAIN)) {
      fd.reset();
    } else if (errno == EAGAIN) {
      return;
    }
  }
}

}  // namespace

Result<std::unique_ptr<ChildProcess>> ChildProcess::start(const ChildCommand& command) {
  std::unique_ptr<ChildProcess> child(new ChildProcess);
  Far far;
  COLL_TRY(make_pipe(child->in_, far.in, false));
  COLL_TRY(make_pipe(child->out_, far.out, true));
  COLL_TRY(make_pipe(child->err_, far.err, true));
  COLL_TRY(make_pipe(child->report_, far.report, true));
  std::vector<char*> argv;
  for (const std::string& word : command.argv) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  child->program_ = command.argv.at(0);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return errno_error(ErrorCode::unavailable, "fork", errno);
  if (pid == 0) become(command, argv.data(), far, parent);
  own_child(pid);
  child->pid_ = pid;
  child->pidfd_ = open_pidfd(pid);
  child->dies_with_us_ = command.dies_with_us;
  return child;
}

ChildProcess::~ChildProcess() {
  if (pid_ < 0 || reaped_) return;
  in_.reset();
  if (dies_with_us_) {
    kill();
    const Deadline deadline = Deadline::after_ms(kKillMs);
    for (reap(); !reaped_ && !deadline.passed(); reap()) base::sleep_until(Deadline::after_ms(1));
  } else {
    // It ends by itself when it has seen the end of its input; a zombie then stays as long as this
    // process.
    reap();
  }
}

void ChildProcess::kill() {
  if (pid_ > 0 && !reaped_) ::kill(pid_, SIGKILL);
}

void ChildProcess::add_interest(std::vector<pollfd>& fds) const {
  if (over_) return;
  if (report_) fds.push_back({report_.get(), POLLIN, 0});
  if (in_ && pending() > 0) fds.push_back({in_.get(), POLLOUT, 0});
  if (out_ && output.size() < kMostBuffered) fds.push_back({out_.get(), POLLIN, 0});
  if (err_ && errors.size() < kMostBuffered) fds.push_back({err_.get(), POLLIN, 0});
  if (pidfd_ && !reaped_) fds.push_back({pidfd_.get(), POLLIN, 0});
}

Deadline ChildProcess::wakeup() const {
  if (over_) return no_wakeup();
  if (!reaped_) return pidfd_ ? no_wakeup() : Deadline::after_ms(kReapPollMs);
  // Reaped: only a caller that takes nothing keeps it from being over.
  return output.size() < kMostBuffered && errors.size() < kMostBuffered ? Deadline::after_ms(0)
                                                                        : no_wakeup();
}

void ChildProcess::write(ByteView data) {
  if (close_input_) return;
  queue_.append(reinterpret_cast<const char*>(data.data()), data.size());
}

void ChildProcess::close_input() {
  close_input_ = true;
  feed_input();  // with nothing queued no descriptor would tell the loop to do it
}

void ChildProcess::read_report() {
  int failure = 0;
  const ssize_t n = report_ ? ::read(report_.get(), &failure, sizeof failure) : -1;
  if (!report_ || (n < 0 && (errno == EAGAIN || errno == EINTR))) return;
  report_.reset();
  if (n != ssize_t(sizeof failure)) return;  // closed by exec
  start_error_ = errno_error(ErrorCode::launch, format("cannot start '{}'", program_), failure);
  if (failure == ENOENT) start_error_->hint = "install it, or add its folder to PATH";
}

void ChildProcess::feed_input() {
  while (in_ && pending() > 0) {
    const ssize_t n = write_quietly(in_.get(), queue_.data() + sent_, pending());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) break;
    if (n < 0) {  // it reads no more; its exit code says why
      in_.reset();
      break;
    }
    sent_ += size_t(n);
  }
  if (!in_ || sent_ == queue_.size()) {
    queue_.clear();
    sent_ = 0;
    if (close_input_) in_.reset();
  } else if (sent_ > kMostBuffered) {
    queue_.erase(0, sent_);
    sent_ = 0;
  }
}

void ChildProcess::reap() {
  int status = 0;
  const pid_t done = ::waitpid(pid_, &status, WNOHANG);
  if (done == 0 || (done < 0 && errno == EINTR)) return;
  reaped_ = true;
  disown_child(pid_);
  // Somebody else has reaped it when there is no such child.
  signal_ = done > 0 && WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  code_ = done < 0 ? 255 : WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

std::optional<Error> ChildProcess::killed() const {
  if (signal_ == 0) return std::nullopt;
  return Error(ErrorCode::lost, format("the process '{}' of this machine (pid {}) was killed by {}",
                                       program_, pid_, signal_text(signal_)));
}

void ChildProcess::progress() {
  if (over_) return;
  read_report();
  feed_input();
  // First reaped, then read: all that it wrote itself is in the pipes by then. Pipes that a
  // grandchild still holds open are not waited for.
  if (!reaped_) reap();
  read_all(out_, output);
  read_all(err_, errors);
  const bool full = output.size() >= kMostBuffered || errors.size() >= kMostBuffered;
  if (reaped_ && !full) {
    read_report();
    report_.reset();
    in_.reset();
    over_ = true;
  }
}

}  // namespace collctl::launcher
