// The TCP connection beside an IB connection: it says that the peer is there (and, by its end, that
// it is not), says goodbye, and carries what both ends must agree on when a port fails. Messages
// are small and whole. Owned by the connection; threads: one at a time. The descriptor is
// authenticated and non-blocking.
#pragma once
#include <deque>
#include <optional>

#include "base/bytes.h"
#include "base/fd.h"
#include "base/result.h"

namespace collctl::transport {

// windows: of one-sided operations (transport/net/ib/one_sided/link.h). receives: that a plugin's
// end has posted in all, before its goodbye (plugin/connection.h).
enum class IbControlKind : uint8_t {
  goodbye = 1,
  lanes_lost = 2,
  moved_over = 3,
  failed = 4,
  windows = 5,
  receives = 6,
  sizes = 7
};

struct IbMessage {
  IbControlKind kind{};
  Bytes body;
};

// The body of `failed`: what has ended one end, for the other end to say it.
Bytes encode_failure(const Error& error);
// As the peer reported it; an end that knows no culprit blames its peer, which is rank `self`.
Error failure_of_peer(ByteView body, const std::string& peer, int self);

class IbControl {
 public:
  explicit IbControl(base::Fd fd) : fd_(std::move(fd)) {}
  int fd() const { return fd_.get(); }
  void push(IbControlKind kind, ByteView body = {});
  // Moves what can be moved now. Error lost: the peer is gone without a goodbye, or sent malformed
  // data.
  Result<bool> pump();
  std::optional<IbMessage> next();
  bool sending() const { return sent_ < out_.size(); }
  bool peer_done() const { return peer_done_; }  // it said goodbye
  bool closed() const { return closed_; }        // and hung up
  bool delivered() const;

 private:
  Result<bool> pump_in();
  Status parse();
  base::Fd fd_;
  Bytes out_, in_;
  size_t sent_ = 0;
  std::deque<IbMessage> arrived_;
  bool peer_done_ = false, closed_ = false;
};

}  // namespace collctl::transport
