#include "base/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cerrno>
#include <cmath>

#include "base/format.h"
#include "base/name_lookup.h"
#include "base/peer_closed.h"

namespace collctl::base {

uint16_t Address::port() const {
  if (family() == AF_INET) return ntohs(reinterpret_cast<const sockaddr_in*>(&storage)->sin_port);
  if (family() == AF_INET6)
    return ntohs(reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_port);
  return 0;
}

void Address::set_port(uint16_t port) {
  if (family() == AF_INET) reinterpret_cast<sockaddr_in*>(&storage)->sin_port = htons(port);
  if (family() == AF_INET6) reinterpret_cast<sockaddr_in6*>(&storage)->sin6_port = htons(port);
}

bool Address::is_loopback() const {
  if (family() == AF_INET)
    return (ntohl(reinterpret_cast<const sockaddr_in*>(&storage)->sin_addr.s_addr) >> 24) == 127;
  return family() == AF_INET6 &&
         IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_addr);
}

bool Address::is_link_local() const {
  const ByteView b = host_bytes();
  if (family() == AF_INET) return b[0] == 169 && b[1] == 254;
  return family() == AF_INET6 && b[0] == 0xfe && (b[1] & 0xc0) == 0x80;
}

ByteView Address::host_bytes() const {
  if (family() == AF_INET)
    return {
        reinterpret_cast<const uint8_t*>(&reinterpret_cast<const sockaddr_in*>(&storage)->sin_addr),
        4};
  if (family() == AF_INET6)
    return {reinterpret_cast<const uint8_t*>(
                &reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_addr),
            16};
  return {};
}

Address neighbour_of(const Address& a) {
  Address other = a;
  const ByteView bytes = other.host_bytes();
  if (!bytes.empty()) const_cast<uint8_t&>(bytes.back()) ^= 1;
  return other;
}

bool in_one_subnet(const Address& a, const Address& b, int prefix_bits) {
  const ByteView x = a.host_bytes(), y = b.host_bytes();
  if (x.size() != y.size() || prefix_bits <= 0 || size_t(prefix_bits) > 8 * x.size()) return false;
  const auto whole = size_t(prefix_bits / 8);
  const int mask = 0xff00 >> (prefix_bits % 8) & 0xff;
  return std::equal(x.begin(), x.begin() + ptrdiff_t(whole), y.begin()) &&
         (mask == 0 || ((x[whole] ^ y[whole]) & mask) == 0);
}

std::string Address::host_text() const {
  char buffer[INET6_ADDRSTRLEN] = {};
  if (family() == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(&storage)->sin_addr, buffer,
              sizeof buffer);
    return buffer;
  }
  if (family() != AF_INET6) return "none";
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&storage);
  inet_ntop(AF_INET6, &v6->sin6_addr, buffer, sizeof buffer);
  std::string text = buffer;
  char name[IF_NAMESIZE] = {};
  if (v6->sin6_scope_id != 0 && if_indextoname(v6->sin6_scope_id, name) != nullptr)
    text += std::string("%") + name;
  return text;
}

std::string Address::text() const {
  return family() == AF_INET6 ? format("[{}]:{}", host_text(), port())
                              : format("{}:{}", host_text(), port());
}

void Address::write(ByteWriter& w) const {
  w.put_bytes({reinterpret_cast<const uint8_t*>(&storage), family() == AF_INET ? sizeof(sockaddr_in)
                                                           : family() == AF_INET6
                                                               ? sizeof(sockaddr_in6)
                                                               : 0});
}

Address Address::read(ByteReader& r) {
  Address a;
  const ByteView v = r.get_bytes(sizeof(sockaddr_in6));
  if (v.size() < sizeof(sa_family_t)) return a;
  sa_family_t family;
  std::memcpy(&family, v.data(), sizeof family);
  const size_t want = family == AF_INET    ? sizeof(sockaddr_in)
                      : family == AF_INET6 ? sizeof(sockaddr_in6)
                                           : 0;
  if (want == 0 || v.size() != want) return a;
  std::memcpy(&a.storage, v.data(), want);
  a.length = socklen_t(want);
  return a;
}

Result<Address> parse_address(const std::string& text, Deadline look_up_until) {
  COLL_ASSIGN(const HostPort at, split_address(text));
  if (const Address numeric = at.numeric(); numeric.length != 0) return numeric;
  COLL_ASSIGN(const auto found, look_up(at, look_up_until));
  return found.front();
}

Result<Fd> listen_tcp(const Address& at, bool reuse_port) {
  Fd fd(::socket(at.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return errno_error(ErrorCode::unavailable, "socket", errno);
  const int one = 1;
  if (at.port() != 0) setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (reuse_port) setsockopt(fd.get(), SOL_SOCKET, SO_REUSEPORT, &one, sizeof one);
  if (::bind(fd.get(), at.raw(), at.length) != 0) {
    const int why = errno;
    Error e = errno_error(ErrorCode::unavailable, "bind " + at.text(), why);
    if (why == EADDRINUSE && at.port() == 0)
      e.hint =
          "every port that the kernel hands out is in use (ss -s counts them; "
          "net.ipv4.ip_local_port_range is their range): wait for connections to close, or widen "
          "it";
    else if (why == EADDRINUSE)
      e.hint = format(
          "another process listens on port {} (ss -ltnp shows which): stop it, or use another "
          "port on all ranks",
          at.port());
    return e;
  }
  if (::listen(fd.get(), 16384) != 0)
    return errno_error(ErrorCode::unavailable, "listen " + at.text(), errno);
  return fd;
}

Result<Address> local_address(int fd) {
  Address a;
  a.length = sizeof a.storage;
  if (getsockname(fd, a.raw(), &a.length) != 0)
    return errno_error(ErrorCode::defect, "getsockname", errno);
  return a;
}

Result<uint16_t> free_port() {
  Address any;
  any.storage.ss_family = AF_INET;
  any.length = sizeof(sockaddr_in);
  COLL_ASSIGN(const Fd fd, listen_tcp(any));
  COLL_ASSIGN(const Address at, local_address(fd.get()));
  return at.port();
}

Result<Address> peer_address(int fd) {
  Address a;
  a.length = sizeof a.storage;
  if (getpeername(fd, a.raw(), &a.length) != 0)
    return errno_error(ErrorCode::lost, "getpeername", errno);
  return a;
}

Result<Fd> accept_now(int listener) {
  while (true) {
    const int fd = ::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) return Fd(fd);
    if (errno == EINTR || errno == ECONNABORTED || errno == EPROTO) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return Fd();
    return errno_error(ErrorCode::unavailable, "accept", errno);
  }
}

Status set_non_blocking(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags >= 0 && ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0) return {};
  return errno_error(ErrorCode::unavailable, "make a descriptor non-blocking", errno);
}

void spare_congestion_control(int fd) {
  const auto own = local_address(fd), peer = peer_address(fd);
  if (!own || !peer || own->host_text() != peer->host_text()) return;
  constexpr std::string_view kPlain = "reno";
  (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, kPlain.data(), kPlain.size());
}

Status set_no_delay(int fd) {
  const int one = 1;
  if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) != 0)
    return errno_error(ErrorCode::defect, "TCP_NODELAY", errno);
  return {};
}

bool all_acknowledged(int fd) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return true;
  int queued = 0;
  return info.tcpi_state == TCP_CLOSE || ::ioctl(fd, SIOCOUTQ, &queued) != 0 || queued == 0;
}

void acknowledge_now(int fd) {
  const int one = 1;
  // A request: without it the acknowledgement is sent later.
  static_cast<void>(::setsockopt(fd, IPPROTO_TCP, TCP_QUICKACK, &one, sizeof one));
}

namespace {

// 0 when connected, else the errno of the failure.
Result<int> connect_once(const Address& to, Deadline deadline, Fd& out) {
  Fd fd(::socket(to.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return errno_error(ErrorCode::unavailable, "socket", errno);
  if (::connect(fd.get(), to.raw(), to.length) != 0) {
    if (errno != EINPROGRESS && errno != EINTR) return errno;
    pollfd p{fd.get(), POLLOUT, 0};
    COLL_ASSIGN(const int ready, poll_fds({&p, 1}, deadline));
    if (ready == 0) return ETIMEDOUT;
    int failure = 0;
    socklen_t size = sizeof failure;
    getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &failure, &size);
    if (failure != 0) return failure;
  }
  COLL_TRY(set_no_delay(fd.get()));
  out = std::move(fd);
  return 0;
}

bool worth_another_try(int failure) {
  return failure == ECONNREFUSED || failure == ETIMEDOUT || failure == EHOSTUNREACH ||
         failure == ENETUNREACH || failure == ECONNRESET || failure == EADDRNOTAVAIL ||
         failure == EAGAIN;
}

}  // namespace

Result<Fd> connect_tcp(const Address& to, Deadline deadline, bool retry) {
  int64_t pause_ms = 1;
  while (true) {
    Fd fd;
    COLL_ASSIGN(const int failure, connect_once(to, deadline, fd));
    if (failure == 0) return fd;
    if (!retry || !worth_another_try(failure) || deadline.remaining_ns() < pause_ms * 1'000'000)
      return connect_error(to, failure);
    sleep_until(Deadline::after_ms(pause_ms));
    pause_ms = std::min<int64_t>(pause_ms * 2, 200);
  }
}

namespace {

Cause cause_of_connect(int error_number) {
  switch (error_number) {
    case ECONNREFUSED:
      return Cause::refused;
    case ETIMEDOUT:
      return Cause::silent;
    case EHOSTUNREACH:
    case ENETUNREACH:
    case EHOSTDOWN:
      return Cause::unreachable;
    case EINVAL:
    case EACCES:
    case EPERM:
      return Cause::barred;
    default:
      return Cause::unsaid;
  }
}

}  // namespace

Error connect_error(const Address& to, int error_number) {
  Error e = errno_error(ErrorCode::lost, "connect " + to.text(), error_number)
                .because(cause_of_connect(error_number));
  if (e.cause == Cause::unreachable && to.is_loopback())
    e.hint = "this host's loopback interface is down or without an address: ip link set lo up";
  return e;
}

Error closed_by_peer() {
  return Error(ErrorCode::lost, "connection closed by the peer").because(Cause::closed);
}

Error connection_error(const char* what, int error_number) {
  Error e = errno_error(ErrorCode::lost, what, error_number);
  if (error_number == ECONNRESET || error_number == EPIPE) e.cause = Cause::closed;
  return e;
}

namespace {
constexpr const char* kBetweenHosts =
    "look at what is between the two hosts (route, cable, firewall): collctl doctor -H with both "
    "tries all ways";
constexpr uint32_t kOverdueMs = 1000, kOverdueSendings = 2;  // what a few lost packets do not take
// The kernel's rules: the answer to a sending is not older than it, and the least wait to send
// again is 200 ms.
constexpr uint32_t kAnswerMs = 100;
// After the other end has closed: sent thrice by then, 200 and 400 ms apart, and within the time
// that a job leaves an aborted rank for its last words.
constexpr double kClosedSeconds = 0.65;
}  // namespace

Error no_connection(const std::string& address) {
  return Error(ErrorCode::deadline, address + ": no connection before the deadline")
      .because(Cause::silent);
}

Error cannot_connect(const std::string& from, const std::string& to, const std::string& host,
                     const Error& cause) {
  Error e(cause.code, format("{} cannot connect to {}: {}", from, to, cause.message),
          cause.hint.empty() ? kBetweenHosts : cause.hint);
  e.cause = Cause::no_connection;
  e.host = host;
  return e;
}

double unacknowledged_s(const tcp_info& info) {
  // A connection that was silent for long has heard nothing for long either: sent again counts, or
  // probes that are not answered, where this host has no route to send at all.
  // Where waits are long, once and no answer for long: who only does not read answers at once.
  const bool unanswered = info.tcpi_last_data_sent >= kOverdueMs &&
                          info.tcpi_last_ack_recv >= info.tcpi_last_data_sent + kAnswerMs;
  const auto overdue = [&](uint32_t sendings) {
    return sendings >= kOverdueSendings || (sendings == 1 && unanswered);
  };
  const bool probing = overdue(info.tcpi_probes);
  if (!probing && (info.tcpi_unacked == 0 || !overdue(info.tcpi_retransmits))) return 0;
  // Nor is the time since the last acknowledgement the answer, then, but all waits to send again,
  // each twice the one before, and the time since the last sending. tcpi_rto is the wait that comes
  // next, or, while probing, the first.
  double ms = info.tcpi_last_ack_recv;
  if (info.tcpi_backoff > 0) {
    const double doubled = std::exp2(info.tcpi_backoff);
    const double waits = probing ? doubled - 1 : 1 - 1 / doubled;
    ms = std::min(ms, info.tcpi_rto / 1e3 * waits + info.tcpi_last_data_sent);
  }
  return ms >= kOverdueMs ? ms / 1e3 : 0;
}

double unacknowledged_s(int fd) {
  const int64_t looked = now_ns();
  while (true) {
    tcp_info info{};
    socklen_t size = sizeof info;
    if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return 0;
    if (const double seconds = unacknowledged_s(info); seconds > 0) return seconds;
    // An end takes with it what the kernel knows of sendings before, and so does each time that the
    // other side sends its end again, lacking our answer. Where data passes it is soon acknowledged
    // or refused, as a whole: nobody here closes one direction alone.
    int left = 0;
    if (info.tcpi_state != TCP_CLOSE_WAIT || ::ioctl(fd, SIOCOUTQ, &left) != 0 || left == 0)
      return 0;
    if (const double here = seconds_since(looked); here >= kClosedSeconds) return here;
    sleep_until(Deadline::after_ms(10));
  }
}

Error cannot_reach(const std::string& from, const std::string& to, double seconds) {
  return Error(ErrorCode::deadline,
               format("{} cannot reach {}: it has acknowledged nothing for {:.1f} s", from, to,
                      seconds),
               kBetweenHosts)
      .because(Cause::unacknowledged);
}

Deadline connect_deadline(Deadline whole) {
  return Deadline::at_ns(whole.at() -
                         std::clamp<int64_t>(whole.remaining_ns() / 8, 0, 1'500'000'000));
}

// As often as signals come in between; 0: there is nothing to be had now. `ends`: a call that moves
// nothing says that the peer has closed.
template <class Call>
static Result<size_t> moved(const char* what, bool ends, Call call) {
  while (true) {
    const ssize_t n = call();
    if (n > 0 || (n == 0 && !ends)) return size_t(n);
    if (n == 0) return closed_by_peer();
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return size_t(0);
    return connection_error(what, errno);
  }
}

Result<size_t> read_some(int fd, void* to, size_t size) {
  return moved("receive", true, [&] { return ::recv(fd, to, size, 0); });
}

Result<size_t> write_some(int fd, const void* from, size_t size) {
  return moved("send", false, [&] { return ::send(fd, from, size, MSG_NOSIGNAL); });
}

Result<size_t> read_some(int fd, std::span<iovec> to) {
  if (to.size() == 1) return read_some(fd, to[0].iov_base, to[0].iov_len);
  msghdr message{};
  message.msg_iov = to.data();
  message.msg_iovlen = to.size();
  return moved("receive", true, [&] { return ::recvmsg(fd, &message, 0); });
}

Result<size_t> write_some(int fd, std::span<iovec> from) {
  // Few bytes are sooner put together here than taken apart by the kernel.
  uint8_t together[512];
  size_t size = 0;
  for (const iovec& piece : from) size += piece.iov_len;
  if (size <= sizeof together) {
    size_t at = 0;
    for (const iovec& piece : from) {
      if (piece.iov_len > 0) std::memcpy(together + at, piece.iov_base, piece.iov_len);
      at += piece.iov_len;
    }
    return write_some(fd, together, size);
  }
  msghdr message{};
  message.msg_iov = from.data();
  message.msg_iovlen = from.size();
  return moved("send", false, [&] { return ::sendmsg(fd, &message, MSG_NOSIGNAL); });
}

// All of it: `some` moves what it can at once.
template <class Byte, class Some>
static Status exact(int fd, Byte* at, size_t size, short events, const char* late,
                    Deadline deadline, Some some) {
  while (size > 0) {
    COLL_ASSIGN(const size_t n, some(fd, at, size));
    at += n;
    size -= n;
    if (n > 0) continue;
    pollfd p{fd, events, 0};
    COLL_ASSIGN(const int ready, poll_fds({&p, 1}, deadline));
    if (ready == 0) return Error(ErrorCode::deadline, late);
  }
  return {};
}

Status read_exact(int fd, void* to, size_t size, Deadline deadline) {
  return exact(fd, static_cast<uint8_t*>(to), size, POLLIN, "no answer before the deadline",
               deadline, [](auto... all) { return read_some(all...); });
}

Status write_exact(int fd, const void* from, size_t size, Deadline deadline) {
  return exact(fd, static_cast<const uint8_t*>(from), size, POLLOUT,
               "the peer took no data before the deadline", deadline,
               [](auto... all) { return write_some(all...); });
}

}  // namespace collctl::base
