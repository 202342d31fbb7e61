#include "runtime/bootstrap/fd.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>

#include "base/log.h"
#include "base/socket_folder.h"

namespace collctl::runtime::boot {
namespace {

constexpr uint32_t kFdMagic = 0x31444643;  // "CFD1"
constexpr size_t kMaxHeld = 65536;         // descriptors that nobody asked for yet
constexpr int kFolderTries = 100;
constexpr size_t kMaxCallers = 1024;
constexpr uint64_t kWarnings = 16;  // about what was dropped; then only their number, at the end

struct Header {
  uint32_t magic;
  int32_t from, to;
  uint32_t reserved;
  uint64_t tag;
  uint64_t nonce;  // the receiver's, so that a message fits one socket only
  std::array<uint8_t, 32> proof;
};
static_assert(sizeof(Header) == 64);

std::array<uint8_t, 32> proof_of(const Header& h, const base::Secret& secret) {
  return base::hmac_sha256(secret,
                           {{reinterpret_cast<const uint8_t*>(&h), offsetof(Header, proof)}});
}

// A path that is too long is cut, and then not found.
sockaddr_un socket_name(const std::string& path) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  path.copy(name.sun_path, sizeof name.sun_path - 1);
  return name;
}

Fd unix_socket() {
  return Fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

bool same_user(int fd) {
  ucred who{};
  socklen_t size = sizeof who;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 && who.uid == ::geteuid();
}

// One message with at most one descriptor. -1 with errno, 0 at the end, else the bytes read.
// `cut`: it had a descriptor for which this process has no room.
ssize_t receive_message(int socket, Header& header, Fd& fd, bool& cut) {
  iovec part{&header, sizeof header};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t n;
  do n = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  while (n < 0 && errno == EINTR);
  if (n <= 0) return n;
  cut = (message.msg_flags & MSG_CTRUNC) != 0;
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c))
    if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
      // The padding of the control buffer may hold a second one: each is owned at once.
      for (size_t at = CMSG_LEN(0); at + sizeof(int) <= c->cmsg_len; at += sizeof(int)) {
        int received;
        std::memcpy(&received, reinterpret_cast<const uint8_t*>(c) + at, sizeof received);
        Fd owned(received);
        if (!fd) fd = std::move(owned);
      }
    }
  return n;
}

}  // namespace

Result<std::unique_ptr<FdSocket>> FdSocket::open(int rank, const base::Secret& secret) {
  std::unique_ptr<FdSocket> fd_socket(new FdSocket);
  fd_socket->rank_ = rank;
  fd_socket->secret_ = secret;
  COLL_TRY(base::fill_random(
      {reinterpret_cast<uint8_t*>(&fd_socket->at_.nonce), sizeof fd_socket->at_.nonce}));
  fd_socket->listener_ = unix_socket();
  if (!fd_socket->listener_) return base::errno_error(ErrorCode::unavailable, "Unix socket", errno);
  for (int tries = 0;; ++tries) {
    COLL_ASSIGN(fd_socket->folder_, base::socket_folder());
    fd_socket->at_.path = base::socket_path(fd_socket->folder_, fd_socket->at_.nonce);
    const sockaddr_un name = socket_name(fd_socket->at_.path);
    if (::bind(fd_socket->listener_.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) ==
        0)
      break;
    // The last rank of another job has just removed the empty folder.
    if (errno != ENOENT || tries == kFolderTries)
      return base::errno_error(ErrorCode::unavailable, "bind " + fd_socket->at_.path, errno);
  }
  if (::listen(fd_socket->listener_.get(), 4096) != 0)
    return base::errno_error(ErrorCode::unavailable, "Unix socket for passing descriptors", errno);
  return fd_socket;
}

FdSocket::~FdSocket() {
  if (!folder_.empty()) {
    ::unlink(at_.path.c_str());
    base::tidy_socket_folder(folder_.c_str());
  }
  if (dropped_ > kWarnings)
    COLL_WARN("rank {}: dropped {} descriptors and callers in all", rank_, dropped_);
}

Status FdSocket::send(int rank, const Address& to, uint64_t tag, int fd, Deadline deadline) const {
  const Fd socket = unix_socket();
  if (!socket) return base::errno_error(ErrorCode::unavailable, "Unix socket", errno);
  const sockaddr_un name = socket_name(to.path);
  while (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0) {
    if (errno == EINTR) continue;
    // Refused or not found: the peer is gone. Full: it will make room.
    if (errno != EAGAIN)
      return base::errno_error(ErrorCode::lost, format("pass a descriptor to rank {}", rank),
                               errno);
    if (deadline.passed())
      return Error(ErrorCode::deadline,
                   format("rank {} accepts no descriptors: its queue stayed full", rank))
          .blame(rank);
    base::sleep_until(Deadline::after_ms(1));
  }
  if (!same_user(socket.get()))
    return Error(ErrorCode::lost, format("the socket of rank {} belongs to another user", rank))
        .blame(rank);
  Header header{kFdMagic, rank_, rank, 0, tag, to.nonce, {}};
  header.proof = proof_of(header, secret_);
  iovec part{&header, sizeof header};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* c = CMSG_FIRSTHDR(&message);
  c->cmsg_level = SOL_SOCKET;
  c->cmsg_type = SCM_RIGHTS;
  c->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(c), &fd, sizeof fd);
  ssize_t n;
  do n = ::sendmsg(socket.get(), &message, MSG_NOSIGNAL);
  while (n < 0 && errno == EINTR);
  // A fresh socket has room for 64 bytes: anything else is an error.
  if (n != ssize_t(sizeof header))
    return base::errno_error(
        errno == ETOOMANYREFS || errno == EBADF ? ErrorCode::unavailable : ErrorCode::lost,
        format("pass descriptor {} to rank {}", fd, rank), errno);
  return {};
}

void FdSocket::add_interest(std::vector<pollfd>& fds) const {
  fds.push_back({listener_.get(), POLLIN, 0});
  for (const Caller& caller : callers_) fds.push_back({caller.fd.get(), POLLIN, 0});
}

bool FdSocket::read_caller(const Caller& caller, Status& room) {
  Header header{};
  Fd fd;
  bool cut = false;
  const ssize_t n = receive_message(caller.fd.get(), header, fd, cut);
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
    return now_ns() - caller.since_ns > int64_t(base::kHandshakeSeconds * 1e9);
  const bool ours = n == ssize_t(sizeof header) && header.magic == kFdMagic && header.to == rank_ &&
                    header.nonce == at_.nonce &&
                    base::equal_constant_time(proof_of(header, secret_), header.proof);
  if (ours && !fd && cut) {
    room = base::errno_error(ErrorCode::unavailable,
                             format("receive a descriptor from rank {}", header.from), EMFILE);
    return true;
  }
  const bool genuine = ours && fd;
  if (!genuine || held_ >= kMaxHeld) {
    drop(genuine ? "too many wait to be taken" : "its sender does not know the job's secret");
    return true;
  }
  arrived_[{header.from, header.tag}].push_back(std::move(fd));
  ++held_;
  return true;
}

void FdSocket::drop(const char* why) {
  if (++dropped_ <= kWarnings) COLL_WARN("rank {}: dropped a descriptor: {}", rank_, why);
}

Status FdSocket::receive() {
  while (callers_.size() < kMaxCallers) {
    const int fd = ::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0 && (errno == EINTR || errno == ECONNABORTED)) continue;
    if (fd < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (fd < 0)
      return base::errno_error(ErrorCode::unavailable, "receive a descriptor from another rank",
                               errno);
    Fd caller(fd);
    if (same_user(fd))
      callers_.push_back({std::move(caller), now_ns()});
    else
      drop("another user's process sent it");
  }
  Status room;
  std::erase_if(callers_, [&](const Caller& caller) { return read_caller(caller, room); });
  return room;
}

Fd FdSocket::take(int from, uint64_t tag) {
  const auto found = arrived_.find({from, tag});
  if (found == arrived_.end()) return {};
  Fd fd = std::move(found->second.front());
  found->second.pop_front();
  if (found->second.empty()) arrived_.erase(found);
  --held_;
  return fd;
}

}  // namespace collctl::runtime::boot
