#include "cmd/job/interrupt.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "base/check.h"
#include "base/format.h"
#include "base/stop.h"

namespace collctl::cmd {
namespace {

// The handler may touch these.
std::atomic<int> g_write_fd{-1};
std::atomic<bool> g_is_to_stop{false};  // by SIGTSTP, with no SIGCONT since

void on_signal(int number) {
  const int kept = errno;
  const auto byte = static_cast<unsigned char>(number);
  if (number == SIGTSTP || number == SIGCONT) g_is_to_stop = number == SIGTSTP;
  // A full pipe (64 KiB of unread signals) says already that a signal is there.
  [[maybe_unused]] const ssize_t n = ::write(g_write_fd.load(), &byte, 1);
  errno = kept;
}

}  // namespace

Interrupts::Interrupts(Takes takes) {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC | O_NONBLOCK) != 0) return;  // without: signals keep their old effect
  read_ = base::Fd(fds[0]);
  write_ = base::Fd(fds[1]);
  COLL_CHECK_NOTE(g_write_fd.exchange(write_.get()) == -1, "one Interrupts at a time");
  std::vector<int> numbers{SIGINT, SIGTERM, SIGHUP};
  if (takes != Takes::ends) numbers.insert(numbers.end(), {SIGTSTP, SIGCONT});
  if (takes == Takes::all) numbers.insert(numbers.end(), {SIGUSR1, SIGUSR2});
  for (const int number : numbers) {
    struct sigaction before {};
    ::sigaction(number, nullptr, &before);
    if (before.sa_handler == SIG_IGN) continue;
    struct sigaction mine {};
    mine.sa_handler = on_signal;
    mine.sa_flags = SA_RESTART;
    ::sigaction(number, &mine, nullptr);
    saved_.push_back({number, before});
  }
}

Interrupts::~Interrupts() {
  for (const Saved& s : saved_) ::sigaction(s.number, &s.before, nullptr);
  g_write_fd = -1;
}

std::optional<int> Interrupts::take() {
  unsigned char byte = 0;
  if (!read_ || ::read(read_.get(), &byte, 1) != 1) return std::nullopt;
  return int(byte);
}

void Interrupts::stop() {
  if (g_is_to_stop.exchange(false)) base::stop_this_process();
}

bool Interrupts::ends(int signal_number) {
  return signal_number == SIGINT || signal_number == SIGTERM || signal_number == SIGHUP;
}

std::string signal_name(int number) {
  const char* name = ::sigabbrev_np(number);
  return name != nullptr ? std::string("SIG") + name : format("signal {}", number);
}

Error interrupted_error(int signal_number) {
  Error e(ErrorCode::interrupted,
          format("ended by {}; all ranks are gone", signal_name(signal_number)));
  e.signal = signal_number;
  return e;
}

void die_by_signal(int signal_number) {
  const std::string text = format("collctl: error: ended by {}\n", signal_name(signal_number));
  [[maybe_unused]] const ssize_t n = ::write(STDERR_FILENO, text.data(), text.size());
  ::signal(signal_number, SIG_DFL);
  ::raise(signal_number);
}

}  // namespace collctl::cmd
