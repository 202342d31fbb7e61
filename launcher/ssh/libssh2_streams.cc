// The open channel of libssh2: streams both ways, keepalive, the end.
#include <signal.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/format.h"
#include "launcher/ssh/libssh2_channel.h"

namespace collctl::launcher {
namespace {

constexpr size_t kReadBytes = 65536;
constexpr size_t kWriteBytes = 32000;       // libssh2 sends no larger packet
constexpr size_t kMostUnsent = 512 * 1024;  // in the transport, not yet with the kernel
constexpr size_t kCompactOutputBytes = 4 << 20;
constexpr int64_t kSilentNs = 15'000'000'000;  // keepalives are answered every 5 s
constexpr int64_t kKeepaliveNs = 5'000'000'000;
constexpr int64_t kAwayNs = kSilentNs / 2;  // longer between two looks: this process was stopped

int signal_number(const char* name) {
  struct Row {
    const char* name;
    int number;
  };
  // Those of RFC 4254 section 6.10.
  static constexpr Row rows[] = {
      {"ABRT", SIGABRT}, {"ALRM", SIGALRM}, {"FPE", SIGFPE},   {"HUP", SIGHUP},   {"ILL", SIGILL},
      {"INT", SIGINT},   {"KILL", SIGKILL}, {"PIPE", SIGPIPE}, {"QUIT", SIGQUIT}, {"SEGV", SIGSEGV},
      {"TERM", SIGTERM}, {"USR1", SIGUSR1}, {"USR2", SIGUSR2}, {"BUS", SIGBUS}};
  for (const Row& row : rows)
    if (std::strncmp(name, row.name, 8) == 0) return row.number;
  return 127;  // some signal
}

}  // namespace

void Libssh2Channel::write(ByteView data) {
  if (close_input_ || step_ == Step::over) return;
  queue_.append(reinterpret_cast<const char*>(data.data()), data.size());
  fresh_ = true;
}

size_t Libssh2Channel::pending() const {
  return queue_.size() - sent_ +
         (socket_ != nullptr && step_ != Step::over ? socket_->queued() : 0);
}

void Libssh2Channel::lose(const std::string& why) {
  if (step_ == Step::over) return;
  error_ = connection_lost(target_.name, why);
  phase_ = ChannelPhase::ended;
  step_ = Step::over;
}

void Libssh2Channel::flush() {
  // From the inner connections outwards: each hands its bytes to the one that carries it.
  for (size_t i = hops_.size(); i > 0; --i)
    if (hops_[i - 1].session) hops_[i - 1].session->transport().flush();
}

void Libssh2Channel::write_queue() {
  while (sent_ < queue_.size() && last().transport().queued() < kMostUnsent) {
    const ssize_t n = libssh2_channel_write(channel_, queue_.data() + sent_,
                                            std::min(queue_.size() - sent_, kWriteBytes));
    if (n == 0 || n == LIBSSH2_ERROR_EAGAIN) break;  // the window is full
    // The command may have closed its input: what it does next tells.
    if (n == LIBSSH2_ERROR_CHANNEL_CLOSED || n == LIBSSH2_ERROR_CHANNEL_EOF_SENT) {
      sent_ = queue_.size();
      break;
    }
    if (n < 0)
      return lose(last().transport().broken() ? "the host closed it" : last().last_error());
    sent_ += size_t(n);
    if (last().transport().queued() >= kMostUnsent) flush();
  }
  if (sent_ == queue_.size()) {
    queue_.clear();
    sent_ = 0;
  } else if (sent_ > kCompactOutputBytes) {
    queue_.erase(0, sent_);
    sent_ = 0;
  }
  if (close_input_ && !eof_sent_ && queue_.empty())
    eof_sent_ = libssh2_channel_send_eof(channel_) != LIBSSH2_ERROR_EAGAIN;
}

// True when the end of both streams has been reached.
bool Libssh2Channel::read_streams() {
  static thread_local std::array<char, kReadBytes> piece;
  left_unread_ = false;
  for (const int stream : {0, SSH_EXTENDED_DATA_STDERR}) {
    std::string& buffer = stream == 0 ? output_ : errors_;
    while (true) {
      if (buffer.size() >= kMostBuffered) {
        left_unread_ = true;
        break;
      }
      const ssize_t n = libssh2_channel_read_ex(channel_, stream, piece.data(), piece.size());
      if (n > 0) {
        buffer.append(piece.data(), size_t(n));
        continue;
      }
      if (n == 0 || n == LIBSSH2_ERROR_EAGAIN) break;
      lose(last().transport().broken() ? "the host closed it" : last().last_error());
      return false;
    }
  }
  return !left_unread_ && libssh2_channel_eof(channel_) == 1;
}

// The streams have ended; how the command did comes before the channel is closed.
bool Libssh2Channel::finish() {
  const int rc = libssh2_channel_wait_closed(channel_);
  if (rc == LIBSSH2_ERROR_EAGAIN) return false;
  if (rc != 0) {
    lose(last().transport().broken() ? "the host closed it" : last().last_error());
    return false;
  }
  char* name = nullptr;
  size_t size = 0;
  static_cast<void>(
      libssh2_channel_get_exit_signal(channel_, &name, &size, nullptr, nullptr, nullptr, nullptr));
  if (name != nullptr) {
    exit_code_ = 128 + signal_number(name);
    libssh2_free(last().raw(), name);
  } else {
    exit_code_ = libssh2_channel_get_exit_status(channel_);
  }
  phase_ = ChannelPhase::ended;
  step_ = Step::over;
  for (size_t i = hops_.size(); i > 0; --i) hops_[i - 1].session->disconnect();
  return false;
}

void Libssh2Channel::keep_alive() {
  const int64_t now = now_ns();
  // While we do not listen silence means nothing.
  if (full() || now - looked_ns_ > kAwayNs) paused_until_ns_ = now;
  looked_ns_ = now;
  const int64_t heard = std::max(last().transport().last_heard_ns(), paused_until_ns_);
  if (now - heard > kSilentNs) return lose(format("no answer for {} s", kSilentNs / 1'000'000'000));
  if (now < keepalive_due_ns_) return;
  // Only into silence: libssh2 keeps every answer until the session ends. Through jump hosts the
  // host's own answer proves them all.
  keepalive_due_ns_ = std::max(heard, now - kKeepaliveNs) + kKeepaliveNs;
  if (now < keepalive_due_ns_) return;
  int next_s = 0;
  if (libssh2_keepalive_send(last().raw(), &next_s) == LIBSSH2_ERROR_SOCKET_SEND)
    return lose("the host closed it");
  keepalive_due_ns_ = now + kKeepaliveNs;
}

void Libssh2Channel::release() {
  if (hops_.back().session) how_ = hops_.back().session->how();
  // The inner sessions first: each reads through the one before it.
  for (size_t i = hops_.size(); i > 0; --i) hops_[i - 1].session.reset();
  socket_ = nullptr;
  channel_ = nullptr;
}

bool Libssh2Channel::run() {
  fresh_ = false;
  const bool ended = read_streams();
  if (step_ == Step::over) return false;
  if (ended) {
    finish();
    if (step_ == Step::over) return false;
  } else {
    write_queue();
  }
  if (step_ != Step::over) keep_alive();
  if (step_ != Step::over && socket_->broken()) {
    // Output from before the end has been read above.
    if (!full()) lose("the host closed it");
  }
  return false;
}

}  // namespace collctl::launcher
