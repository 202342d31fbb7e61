#include "launcher/ssh/ssh2_transport.h"

#include <sys/socket.h>

#include <cerrno>

#include "base/socket.h"

namespace collctl::launcher {
namespace {

constexpr size_t kCompactBytes = 1 << 20;

}  // namespace

ssize_t Ssh2Transport::receive(void* to, size_t size) {
  if (broken_) return -ECONNRESET;
  const ssize_t n = raw_receive(to, size);
  if (n > 0) {
    last_heard_ns_ = now_ns();
    received_bytes_ += uint64_t(n);
  }
  if (n == 0 || (n < 0 && n != -EAGAIN)) broken_ = true;
  return n;
}

ssize_t Ssh2Transport::send(const void* from, size_t size) {
  if (broken_) return -EPIPE;
  queue_.append(static_cast<const char*>(from), size);
  return ssize_t(size);
}

void Ssh2Transport::flush() {
  while (!broken_ && queued() > 0) {
    const ssize_t n = raw_send(queue_.data() + sent_, queued());
    if (n == -EAGAIN) break;
    if (n < 0) broken_ = true;
    if (n > 0) sent_ += size_t(n);
  }
  if (broken_ || queued() == 0 || sent_ > kCompactBytes) {
    queue_.erase(0, broken_ ? queue_.size() : sent_);
    sent_ = 0;
  }
}

ssize_t SocketTransport::raw_receive(void* to, size_t size) {
  while (true) {
    const ssize_t n = ::recv(fd_.get(), to, size, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno == EWOULDBLOCK ? -EAGAIN : -errno;
    if (hasten_) base::acknowledge_now(fd_.get());
    return n;
  }
}

ssize_t SocketTransport::raw_send(const void* from, size_t size) {
  while (true) {
    const ssize_t n = ::send(fd_.get(), from, size, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    return n < 0 ? (errno == EWOULDBLOCK ? -EAGAIN : -errno) : n;
  }
}

ssize_t TunnelTransport::raw_receive(void* to, size_t size) {
  const ssize_t n = libssh2_channel_read(channel_, static_cast<char*>(to), size);
  if (n > 0) return n;
  if (n == LIBSSH2_ERROR_EAGAIN) return -EAGAIN;
  if (n < 0) return -ECONNRESET;
  return libssh2_channel_eof(channel_) == 1 ? 0 : -EAGAIN;
}

ssize_t TunnelTransport::raw_send(const void* from, size_t size) {
  const ssize_t n = libssh2_channel_write(channel_, static_cast<const char*>(from), size);
  if (n > 0) return n;
  // 0: the window is full.
  return n == 0 || n == LIBSSH2_ERROR_EAGAIN ? -EAGAIN : -EPIPE;
}

}  // namespace collctl::launcher
