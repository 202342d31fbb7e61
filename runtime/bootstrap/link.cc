#include "runtime/bootstrap/link.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>

#include "base/check.h"
#include "base/format.h"
#include "base/peer_closed.h"
#include "base/socket.h"

namespace collctl::runtime::boot {
namespace {

// A body is made room for as it comes, so that a false length costs nothing.
constexpr size_t kGrowth = size_t(1) << 20;

template <class T>
ByteView bytes_of(const T& value) {
  return {reinterpret_cast<const uint8_t*>(&value), sizeof value};
}

}  // namespace

void DataLink::post(uint64_t tag, ByteView body) {
  COLL_CHECK(!sending_);
  out_head_ = {tag, body.size()};
  out_body_ = body;
  out_mac_ = fd_.seal({bytes_of(out_head_), body});
  out_moved_ = 0;
  sending_ = true;
}

Message DataLink::take() {
  COLL_CHECK(received_);
  received_ = false;
  return std::exchange(in_, {});
}

short DataLink::events() const {
  return short((sending_ ? POLLOUT : 0) | (expecting_ ? POLLIN : 0));
}

Status DataLink::progress() {
  if (!fd_) return Error(ErrorCode::lost, "the connection had already ended");
  Status state;
  if (sending_) state = progress_send();
  if (state && expecting_) state = progress_receive();
  if (!state) close();
  return state;
}

Status DataLink::progress_send() {
  while (true) {
    iovec parts[3];
    int count = 0;
    size_t skip = out_moved_;
    for (const ByteView part : {bytes_of(out_head_), out_body_, ByteView(out_mac_)}) {
      const size_t gone = std::min(skip, part.size());
      skip -= gone;
      if (gone < part.size())
        parts[count++] = {const_cast<uint8_t*>(part.data()) + gone, part.size() - gone};
    }
    if (count == 0) {
      sending_ = false;
      return {};
    }
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = size_t(count);
    const ssize_t n = ::sendmsg(fd_.get(), &message, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return {};
    if (n < 0) return base::connection_error("send", errno);
    out_moved_ += size_t(n);
  }
}

Status DataLink::progress_receive() {
  while (true) {
    uint8_t* to;
    size_t want;
    if (in_moved_ < sizeof in_head_) {
      to = reinterpret_cast<uint8_t*>(&in_head_) + in_moved_;
      want = sizeof in_head_ - in_moved_;
    } else {
      const size_t at = in_moved_ - sizeof in_head_;
      if (at >= in_head_.length) {
        const size_t in_mac = at - in_head_.length;
        if (in_mac == in_mac_.size()) break;
        to = in_mac_.data() + in_mac;
        want = in_mac_.size() - in_mac;
      } else {
        if (at == in_.body.size())
          in_.body.resize(std::min<uint64_t>(in_head_.length, at + std::max(at, kGrowth)));
        to = in_.body.data() + at;
        want = in_.body.size() - at;
      }
    }
    COLL_ASSIGN(const size_t n, base::read_some(fd_.get(), to, want));
    if (n == 0) return {};
    in_moved_ += n;
    if (in_moved_ == sizeof in_head_ && in_head_.length > longest_)
      return Error(ErrorCode::lost, format("it announced {} bytes, more than the {} allowed",
                                           in_head_.length, longest_));
  }
  if (!fd_.genuine({bytes_of(in_head_), in_.body}, in_mac_))
    return Error(ErrorCode::lost, kChanged);
  in_.tag = in_head_.tag;
  in_moved_ = 0;
  expecting_ = false;
  received_ = true;
  return {};
}

}  // namespace collctl::runtime::boot
