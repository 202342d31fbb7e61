#include "runtime/bootstrap/fd.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>

#include "base/log.h"

namespace collctl::runtime::boot {
namespace {

constexpr uint32_t kFdMagic = 0x31444643;  // "CFD1"
constexpr size_t kMaxHeld = 65536;         // descriptors that nobody asked for yet
constexpr size_t kMaxCallers = 1024;

struct Header {
  uint32_t magic;
  int32_t from, to;
  uint32_t reserved;
  uint64_t tag;
  uint64_t nonce;  // the receiver's, so that a message fits one door only
  std::array<uint8_t, 32> proof;
};
static_assert(sizeof(Header) == 64);

std::array<uint8_t, 32> proof_of(const Header& h, const base::Secret& secret) {
  return base::hmac_sha256(secret,
                           {{reinterpret_cast<const uint8_t*>(&h), offsetof(Header, proof)}});
}

sockaddr_un socket_name(uint64_t job, int rank, uint64_t nonce, socklen_t& length) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  // The leading zero byte makes the name abstract: it vanishes with the socket.
  const std::string text = format("collctl-{:016x}-{}-{:016x}", job, rank, nonce);
  std::copy(text.begin(), text.end(), name.sun_path + 1);
  length = socklen_t(offsetof(sockaddr_un, sun_path) + 1 + text.size());
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

Result<std::unique_ptr<FdDoor>> FdDoor::open(uint64_t job, int rank, const base::Secret& secret) {
  std::unique_ptr<FdDoor> door(new FdDoor);
  door->job_ = job;
  door->rank_ = rank;
  door->secret_ = secret;
  COLL_TRY(base::fill_random({reinterpret_cast<uint8_t*>(&door->nonce_), sizeof door->nonce_}));
  door->listener_ = unix_socket();
  if (!door->listener_) return base::errno_error(ErrorCode::unavailable, "Unix socket", errno);
  socklen_t length;
  const sockaddr_un name = socket_name(job, rank, door->nonce_, length);
  if (::bind(door->listener_.get(), reinterpret_cast<const sockaddr*>(&name), length) != 0 ||
      ::listen(door->listener_.get(), 4096) != 0)
    return base::errno_error(ErrorCode::unavailable, "Unix socket for passing descriptors", errno);
  return door;
}

Status FdDoor::send(const Address& to, uint64_t tag, int fd, Deadline deadline) const {
  const Fd socket = unix_socket();
  if (!socket) return base::errno_error(ErrorCode::unavailable, "Unix socket", errno);
  socklen_t length;
  const sockaddr_un name = socket_name(job_, to.rank, to.nonce, length);
  while (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&name), length) != 0) {
    if (errno == EINTR) continue;
    // Refused: the peer or its network namespace is not this one. Full: it will make room.
    if (errno != EAGAIN)
      return base::errno_error(ErrorCode::lost, format("pass a descriptor to rank {}", to.rank),
                               errno);
    if (deadline.passed())
      return Error(ErrorCode::deadline,
                   format("rank {} accepts no descriptors: its queue stayed full", to.rank))
          .blame(to.rank);
    base::sleep_until(Deadline::after_ms(1));
  }
  if (!same_user(socket.get()))
    return Error(ErrorCode::lost, format("the socket of rank {} belongs to another user", to.rank))
        .blame(to.rank);
  Header header{kFdMagic, rank_, to.rank, 0, tag, to.nonce, {}};
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
        format("pass descriptor {} to rank {}", fd, to.rank), errno);
  return {};
}

void FdDoor::add_interest(std::vector<pollfd>& fds) const {
  fds.push_back({listener_.get(), POLLIN, 0});
  for (const Caller& caller : callers_) fds.push_back({caller.fd.get(), POLLIN, 0});
}

bool FdDoor::read_caller(const Caller& caller, Status& room) {
  Header header{};
  Fd fd;
  bool cut = false;
  const ssize_t n = receive_message(caller.fd.get(), header, fd, cut);
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
    return now_ns() - caller.since_ns > int64_t(base::kHandshakeSeconds * 1e9);
  const bool ours = n == ssize_t(sizeof header) && header.magic == kFdMagic && header.to == rank_ &&
                    header.nonce == nonce_ &&
                    base::equal_constant_time(proof_of(header, secret_), header.proof);
  if (ours && !fd && cut) {
    room = base::errno_error(ErrorCode::unavailable,
                             format("receive a descriptor from rank {}", header.from), EMFILE);
    return true;
  }
  const bool genuine = ours && fd;
  if (!genuine || held_ >= kMaxHeld) {
    COLL_WARN("rank {}: dropped a descriptor: {}", rank_,
              genuine ? "too many wait to be taken" : "its sender does not know the job's secret");
    return true;
  }
  arrived_[{header.from, header.tag}].push_back(std::move(fd));
  ++held_;
  return true;
}

Status FdDoor::receive() {
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
      COLL_WARN("rank {}: another user's process connected to the descriptor socket", rank_);
  }
  Status room;
  std::erase_if(callers_, [&](const Caller& caller) { return read_caller(caller, room); });
  return room;
}

Fd FdDoor::take(int from, uint64_t tag) {
  const auto found = arrived_.find({from, tag});
  if (found == arrived_.end()) return {};
  Fd fd = std::move(found->second.front());
  found->second.pop_front();
  if (found->second.empty()) arrived_.erase(found);
  --held_;
  return fd;
}

}  // namespace collctl::runtime::boot
