// The carrier below an SSH session of libssh2: a TCP socket, or a channel through a jump host.
// Sending always takes everything into a queue of ours: libssh2 never sees a half-sent packet,
// which it can only finish with the very same call (a read that wants to adjust a window in between
// would fail). A caller that writes much looks at queued() first. Threads: the loop's.
#pragma once
#include <libssh2.h>
#include <sys/types.h>

#include <cstdint>
#include <string>

#include "base/clock.h"
#include "base/fd.h"

namespace collctl::launcher {

class Ssh2Transport {
 public:
  virtual ~Ssh2Transport() = default;
  // Bytes read, 0 at the end, or a negative errno; -EAGAIN when nothing is there.
  ssize_t receive(void* to, size_t size);
  // Bytes taken (all), or a negative errno when the transport is broken.
  ssize_t send(const void* from, size_t size);
  // Writes what it can of the queue.
  void flush();
  size_t queued() const { return queue_.size() - sent_; }
  bool broken() const { return broken_; }
  // From now on nothing is read or written: for the end of a session with a dead peer.
  void cut() { broken_ = true; }
  int64_t last_heard_ns() const { return last_heard_ns_; }
  uint64_t received_bytes() const { return received_bytes_; }

 protected:
  virtual ssize_t raw_receive(void* to, size_t size) = 0;
  virtual ssize_t raw_send(const void* from, size_t size) = 0;  // as receive(), partly is fine

 private:
  std::string queue_;
  size_t sent_ = 0;
  bool broken_ = false;
  int64_t last_heard_ns_ = now_ns();
  uint64_t received_bytes_ = 0;
};

class SocketTransport final : public Ssh2Transport {
 public:
  explicit SocketTransport(base::Fd fd) : fd_(std::move(fd)) {}
  int fd() const { return fd_.get(); }
  // During the handshake each side waits for the other: the usual delay of acknowledgements would
  // cost 40 ms at a time.
  void hasten(bool on) { hasten_ = on; }

 protected:
  ssize_t raw_receive(void* to, size_t size) override;
  ssize_t raw_send(const void* from, size_t size) override;

 private:
  base::Fd fd_;
  bool hasten_ = true;
};

class TunnelTransport final : public Ssh2Transport {
 public:
  explicit TunnelTransport(LIBSSH2_CHANNEL* channel) : channel_(channel) {}

 protected:
  ssize_t raw_receive(void* to, size_t size) override;
  ssize_t raw_send(const void* from, size_t size) override;

 private:
  LIBSSH2_CHANNEL* channel_;  // the outer session's, which lives longer
};

}  // namespace collctl::launcher
