#include "launcher/ssh/prompt.h"

#include <fcntl.h>
#include <termios.h>

#include <atomic>
#include <cerrno>
#include <map>
#include <mutex>
#include <thread>

#include "base/fd.h"
#include "base/printable.h"
#include "base/wait.h"

namespace collctl::launcher {
namespace {

constexpr double kPatienceS = 120;
constexpr size_t kMostTyped = 1024;
constexpr int64_t kMeanwhileMs = 200;

std::atomic<int64_t> g_asked_ns{0};
std::mutex g_kept_mutex;
std::function<void()> g_meanwhile;
std::thread::id g_loop;

std::map<std::string, std::string>& kept_answers() {
  static auto& map = *new std::map<std::string, std::string>;
  return map;
}

// The terminal without echo, as long as this lives.
class Silence {
 public:
  explicit Silence(int fd) : fd_(fd) {
    if (::tcgetattr(fd, &before_) != 0) return;
    termios quiet = before_;
    quiet.c_lflag &= ~tcflag_t(ECHO);
    changed_ = ::tcsetattr(fd, TCSAFLUSH, &quiet) == 0;
  }
  ~Silence() {
    if (changed_) ::tcsetattr(fd_, TCSAFLUSH, &before_);
  }
  Silence(const Silence&) = delete;
  Silence& operator=(const Silence&) = delete;
  bool works() const { return changed_; }

 private:
  int fd_;
  bool changed_ = false;
  termios before_{};
};

bool put(int fd, const std::string& text) {
  return ::write(fd, text.data(), text.size()) == ssize_t(text.size());
}

Result<std::string> read_line(int fd, int stop_fd) {
  const Deadline deadline = Deadline::after_seconds(kPatienceS);
  std::string answer;
  while (answer.size() < kMostTyped) {
    pollfd fds[] = {{fd, POLLIN, 0}, {stop_fd, POLLIN, 0}};
    COLL_ASSIGN(const int ready,
                base::poll_fds(fds, deadline.earlier(Deadline::after_ms(kMeanwhileMs))));
    if (g_meanwhile && std::this_thread::get_id() == g_loop) g_meanwhile();
    if (fds[1].revents != 0)
      return Error(ErrorCode::unavailable, "a signal interrupted the prompt at the terminal");
    if (ready == 0 && !deadline.passed()) continue;
    if (ready == 0) return Error(ErrorCode::unavailable, "nobody answered at the terminal");
    char c = 0;
    const ssize_t n = ::read(fd, &c, 1);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (n <= 0) return Error(ErrorCode::unavailable, "the terminal gave no answer");
    if (c == '\n') return answer;
    answer += c;
  }
  return Error(ErrorCode::unavailable, "the answer at the terminal is too long");
}

}  // namespace

Result<std::string> ask_secret(const std::string& question, int stop_fd) {
  const base::Fd tty(::open("/dev/tty", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC));
  if (!tty)
    return base::errno_error(ErrorCode::unavailable, "there is no terminal to ask at", errno);
  const int64_t from = now_ns();
  const Silence silence(tty.get());
  // A line of progress that stands there gives way.
  if (!silence.works() || !put(tty.get(), "\r\x1b[K" + base::printable(question)))
    return Error(ErrorCode::unavailable, "cannot ask at the terminal");
  Result<std::string> answer = read_line(tty.get(), stop_fd);
  static_cast<void>(put(tty.get(), "\n"));  // only for the eye
  g_asked_ns += now_ns() - from;
  return answer;
}

Result<std::string> kept_secret(const std::string& name, const std::string& question, bool again,
                                int stop_fd) {
  const std::lock_guard lock(g_kept_mutex);
  if (!again)
    if (const auto found = kept_answers().find(name); found != kept_answers().end())
      return found->second;
  COLL_ASSIGN(std::string answer, ask_secret(question, stop_fd));
  kept_answers()[name] = answer;
  return answer;
}

int64_t asked_ns() {
  return g_asked_ns;
}

void pardon_ns(int64_t ns) {
  g_asked_ns += ns;
}

void while_asking(std::function<void()> work) {
  g_meanwhile = std::move(work);
  g_loop = std::this_thread::get_id();
}

}  // namespace collctl::launcher
