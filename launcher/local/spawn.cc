#include "launcher/local/spawn.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/format.h"
#include "base/rank_env.h"

namespace collctl::launcher {
namespace {

using base::errno_error;
using base::Fd;

constexpr int kLowestFd = 16;  // above the numbers the child's descriptors are moved to
constexpr int kMaxCores = 8192;

enum class Step : int32_t { exec, bind, descriptors, files };
struct ExecFailure {
  Step step;
  int32_t error_number;
};

// Everything the child needs, made before the fork: between fork and exec only async-signal-safe
// calls are allowed (other threads of this process may hold the allocator's lock).
struct Prepared {
  std::string path;
  std::vector<char*> argv, environment;
  Fd null_in, stdin_read, stdout_write, stderr_write, control, report;
  cpu_set_t* cores = nullptr;
  bool must_bind = true;
  rlimit files{};
  pid_t parent = 0;

  Prepared() = default;
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;
  ~Prepared() {
    if (cores != nullptr) CPU_FREE(cores);
  }
};

Error out_of(std::string_view what, int error_number) {
  return errno_error(ErrorCode::unavailable, what, error_number);
}

// Moves a descriptor out of the range that the child reuses.
Result<Fd> lift(int fd) {
  const Fd low(fd);
  const int high = ::fcntl(fd, F_DUPFD_CLOEXEC, kLowestFd);
  // A limit below that number is said to be an invalid argument.
  if (high < 0) return out_of("duplicate a descriptor", errno == EINVAL ? EMFILE : errno);
  return Fd(high);
}

Status make_pipe(Fd& read_end, Fd& write_end) {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) return out_of("pipe", errno);
  Fd other(fds[1]);
  COLL_ASSIGN(read_end, lift(fds[0]));
  COLL_ASSIGN(write_end, lift(other.release()));
  return {};
}

Status never_block(const Fd& fd) {
  if (::fcntl(fd.get(), F_SETFL, ::fcntl(fd.get(), F_GETFL) | O_NONBLOCK) != 0)
    return errno_error(ErrorCode::defect, "O_NONBLOCK", errno);
  return {};
}

std::string search_path(const std::vector<std::string>& environment) {
  for (const std::string& entry : environment)
    if (entry.rfind("PATH=", 0) == 0) return entry.substr(5);
  return "/usr/local/bin:/usr/bin:/bin";
}

// Looks a program up as a shell does; a name with a slash is taken as it is.
Result<std::string> find_program(const RankProcess& process) {
  if (!process.path.empty()) return process.path;
  const std::string& name = process.argv.at(0);
  if (name.empty()) return Error(ErrorCode::usage, "the program name is empty");
  if (name.find('/') != std::string::npos) return name;
  const std::string path = search_path(process.environment);
  int failure = ENOENT;
  for (size_t at = 0; at <= path.size();) {
    const size_t colon = std::min(path.find(':', at), path.size());
    const std::string folder = path.substr(at, colon - at);
    at = colon + 1;
    const std::string candidate = (folder.empty() ? "." : folder) + "/" + name;
    struct stat s;
    if (::stat(candidate.c_str(), &s) != 0 || !S_ISREG(s.st_mode)) continue;
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
    failure = errno;
  }
  Error e = errno_error(ErrorCode::launch, "cannot start '" + name + "'", failure);
  e.hint = failure == ENOENT ? "it is in no folder of PATH: check the name, or give its path"
                             : "the file is not executable for this user (chmod +x)";
  return e;
}

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> list;
  for (const std::string& s : strings) list.push_back(const_cast<char*>(s.c_str()));
  list.push_back(nullptr);
  return list;
}

void set_cores(Prepared& p, const std::vector<int>& cores) {
  if (cores.empty()) return;
  p.cores = CPU_ALLOC(kMaxCores);
  CPU_ZERO_S(CPU_ALLOC_SIZE(kMaxCores), p.cores);
  for (const int core : cores) CPU_SET_S(size_t(core), CPU_ALLOC_SIZE(kMaxCores), p.cores);
}

[[noreturn]] void exit_failed(const Prepared& p, Step step) {
  const ExecFailure failure{step, errno};
  // Best effort: a parent that cannot be told sees exit code 127.
  [[maybe_unused]] const ssize_t n = ::write(p.report.get(), &failure, sizeof failure);
  ::_exit(127);
}

void reset_signals() {
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  for (int number = 1; number < NSIG; ++number)
    if (number != SIGKILL && number != SIGSTOP) ::sigaction(number, &standard, nullptr);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

// In the forked child: async-signal-safe calls only, never returns.
[[noreturn]] void become_rank(const Prepared& p) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The parent may have died before PDEATHSIG was set: then nobody will ever signal.
  if (::getppid() != p.parent) ::_exit(127);
  reset_signals();
  const int in = p.null_in ? p.null_in.get() : p.stdin_read.get();
  if (::dup2(in, STDIN_FILENO) < 0 || ::dup2(p.stdout_write.get(), STDOUT_FILENO) < 0 ||
      ::dup2(p.stderr_write.get(), STDERR_FILENO) < 0)
    exit_failed(p, Step::descriptors);
  if (p.control && ::dup2(p.control.get(), base::kControlFd) < 0) exit_failed(p, Step::descriptors);
  if (::setrlimit(RLIMIT_NOFILE, &p.files) != 0) exit_failed(p, Step::files);
  if (p.cores != nullptr && ::sched_setaffinity(0, CPU_ALLOC_SIZE(kMaxCores), p.cores) != 0 &&
      p.must_bind)
    exit_failed(p, Step::bind);
  ::execve(p.path.c_str(), p.argv.data(), p.environment.data());
  exit_failed(p, Step::exec);
}

Status open_streams(const RankProcess& process, Prepared& p, Child& child) {
  COLL_TRY(make_pipe(child.stdout_read, p.stdout_write));
  COLL_TRY(make_pipe(child.stderr_read, p.stderr_write));
  COLL_TRY(make_pipe(child.exec_report, p.report));
  COLL_TRY(never_block(child.stdout_read));
  COLL_TRY(never_block(child.stderr_read));
  COLL_TRY(never_block(child.exec_report));
  if (process.null_stdin) {
    const int fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return out_of("open /dev/null", errno);
    COLL_ASSIGN(p.null_in, lift(fd));
  } else {
    COLL_TRY(make_pipe(p.stdin_read, child.stdin_write));
    COLL_TRY(never_block(child.stdin_write));
  }
  if (!process.control) return {};
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) != 0)
    return out_of("control socket", errno);
  Fd other(fds[1]);
  COLL_ASSIGN(child.control, lift(fds[0]));
  COLL_ASSIGN(p.control, lift(other.release()));
  return {};
}

Error fork_error(int error_number) {
  Error e = errno_error(ErrorCode::unavailable, "fork", error_number);
  rlimit limit{};
  if (error_number == EAGAIN && ::getrlimit(RLIMIT_NPROC, &limit) == 0)
    e.hint =
        limit.rlim_cur == RLIM_INFINITY
            ? std::string(
                  "no more processes are allowed here (pids limit of the container or "
                  "machine): start fewer ranks")
            : format(
                  "this user is limited to {} processes (ulimit -u): raise that or start fewer "
                  "ranks",
                  limit.rlim_cur);
  if (error_number == ENOMEM) e.hint = "not enough memory for another process: start fewer ranks";
  return e;
}

}  // namespace

Fd open_pidfd(int pid) {
#ifdef SYS_pidfd_open
  return Fd(int(::syscall(SYS_pidfd_open, pid, 0)));
#else
  static_cast<void>(pid);
  return Fd();
#endif
}

Result<Child> spawn(const RankProcess& process, const rlimit& files) {
  COLL_ASSIGN(std::string path, find_program(process));
  Prepared p;
  Child child;
  p.path = child.path = std::move(path);
  p.argv = pointers(process.argv);
  p.environment = pointers(process.environment);
  p.files = files;
  p.parent = ::getpid();
  set_cores(p, process.cores);
  p.must_bind = process.must_bind;
  COLL_TRY(open_streams(process, p, child));
  const pid_t pid = ::fork();
  if (pid < 0) return fork_error(errno);
  if (pid == 0) become_rank(p);
  // Also here, so that a signal to the group works at once; after exec the kernel refuses (EACCES),
  // by then the child has done it itself.
  ::setpgid(pid, pid);
  child.pid = pid;
  child.pidfd = open_pidfd(pid);
  return child;
}

Status exec_result(Child& child, Deadline deadline) {
  ExecFailure failure{};
  while (true) {
    const ssize_t n = ::read(child.exec_report.get(), &failure, sizeof failure);
    if (n == ssize_t(sizeof failure)) break;
    if (n >= 0) {  // closed by exec
      child.exec_report.reset();
      return {};
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return errno_error(ErrorCode::launch, "read from a new process", errno);
    pollfd p{child.exec_report.get(), POLLIN, 0};
    COLL_ASSIGN(const int ready, base::poll_fds({&p, 1}, deadline));
    if (ready == 0)
      return Error(ErrorCode::launch,
                   format("cannot start '{}': process {} did not reach the "
                          "program in time",
                          child.path, child.pid),
                   "the machine is overloaded, or the file system of the program hangs");
  }
  const char* what = failure.step == Step::bind          ? ": binding to cores"
                     : failure.step == Step::descriptors ? ": setting up its descriptors"
                     : failure.step == Step::files       ? ": setting the limit of open files"
                                                         : "";
  Error e = errno_error(ErrorCode::launch, format("cannot start '{}'{}", child.path, what),
                        failure.error_number);
  if (failure.step == Step::exec && failure.error_number == ENOENT)
    e.hint = "no such file, or the interpreter that its first line names is missing";
  if (failure.step == Step::exec && failure.error_number == EACCES)
    e.hint = "the file is not executable for this user, or it is a folder";
  if (failure.step == Step::exec && failure.error_number == ENOEXEC)
    e.hint = "neither a program for this machine nor a script that begins with #!";
  return e;
}

std::string signal_text(int number) {
  const char* name = ::sigabbrev_np(number);
  return name == nullptr ? format("signal {}", number) : format("signal {} (SIG{})", number, name);
}

ssize_t write_quietly(int fd, const void* from, size_t size) {
  sigset_t pipe_only, before;
  sigemptyset(&pipe_only);
  sigaddset(&pipe_only, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe_only, &before);
  const ssize_t n = ::write(fd, from, size);
  const int failure = errno;
  if (n < 0 && failure == EPIPE && sigismember(&before, SIGPIPE) == 0) {
    const timespec now{};
    sigtimedwait(&pipe_only, nullptr, &now);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = failure;
  return n;
}

}  // namespace collctl::launcher
