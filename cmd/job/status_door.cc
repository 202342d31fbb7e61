#include "cmd/job/status_door.h"

#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>

#include "base/format.h"
#include "base/socket.h"
#include "base/socket_folder.h"
#include "base/wait.h"

namespace collctl::cmd {
namespace {

using base::Deadline;

constexpr uint64_t kDoorPath = uint64_t(0x57a7) << 16;  // as kTokenPath: meets no other's
constexpr int kDoorFolderTries = 100;
constexpr double kCallerSeconds = 5;  // of a caller that reads slowly
const std::string kNoAnswer = "?";    // in its place: the loop is silent
constexpr size_t kMostStatusBytes = size_t{1} << 28;

sockaddr_un door_name(const std::string& path) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  path.copy(name.sun_path, sizeof name.sun_path - 1);
  return name;
}

base::Fd door_socket() {
  return base::Fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

// The folder keeps others out already.
bool is_this_user(int fd) {
  ucred who{};
  socklen_t size = sizeof who;
  return ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 && who.uid == ::geteuid();
}

Error silent(const OpenDoor& door) {
  return Error(ErrorCode::deadline, format("job {} does not answer", door.pid),
               "its launcher may be stopped, or writes to somebody who does not read");
}

void ring(const base::Fd& event) {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = ::write(event.get(), &one, sizeof one);
}

}  // namespace

Result<std::unique_ptr<Door>> StatusDoor::open(double patience_s) {
  std::unique_ptr<StatusDoor> door(new StatusDoor);
  door->patience_s_ = patience_s;
  door->asked_ = base::Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  door->stop_ = base::Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  base::Fd listener = door_socket();
  if (!door->asked_ || !door->stop_ || !listener)
    return base::errno_error(ErrorCode::unavailable, "a socket for collctl status", errno);
  for (int tries = 0;; ++tries) {
    COLL_ASSIGN(door->folder_, base::known_socket_folder());
    const std::string path = base::socket_path(door->folder_, kDoorPath);
    const sockaddr_un name = door_name(path);
    if (::bind(listener.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0) {
      door->path_ = path;
      break;
    }
    // Another's last socket has just gone, and the folder with it.
    if (errno != ENOENT || tries == kDoorFolderTries)
      return base::errno_error(ErrorCode::unavailable, "bind " + path, errno);
  }
  if (::chmod(door->path_.c_str(), 0600) != 0 || ::listen(listener.get(), 16) != 0)
    return base::errno_error(ErrorCode::unavailable, "listen at " + door->path_, errno);
  door->listener_ = std::move(listener);
  door->thread_ = std::thread([raw = door.get()] { raw->serve(); });
  return std::unique_ptr<Door>(std::move(door));
}

StatusDoor::~StatusDoor() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (stop_) ring(stop_);
  if (thread_.joinable()) thread_.join();
  if (path_.empty()) return;
  ::unlink(path_.c_str());
  base::tidy_socket_folder(folder_.c_str());
}

bool StatusDoor::take() {
  uint64_t count = 0;
  return ::read(asked_.get(), &count, sizeof count) == ssize_t(sizeof count);
}

void StatusDoor::answer(std::string text) {
  const std::lock_guard lock(mutex_);
  answer_ = std::move(text);
  changed_.notify_all();
}

void StatusDoor::serve() {
  while (true) {
    pollfd fds[] = {{listener_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
    // Ends with a caller or the job's end; the hour only bounds one wait.
    if (!base::poll_fds(fds, Deadline::after_seconds(3600)) || fds[1].revents != 0) return;
    if (fds[0].revents == 0) continue;
    base::Fd caller(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (caller && is_this_user(caller.get())) serve_caller(std::move(caller));
  }
}

void StatusDoor::serve_caller(base::Fd caller) {
  std::unique_lock lock(mutex_);
  answer_.reset();
  ring(asked_);
  base::wait_for(changed_, lock, Deadline::after_seconds(patience_s_),
                 [&] { return answer_ || stopping_; });
  if (!answer_ && stopping_) return;  // the end of the connection says so
  const std::string text = answer_ ? std::move(*answer_) : kNoAnswer;
  lock.unlock();
  // In parts, so that the job's end is not held up by a caller that does not read.
  const Deadline until = Deadline::after_seconds(kCallerSeconds);
  for (size_t sent = 0; sent < text.size() && !until.passed();) {
    const ssize_t n =
        ::send(caller.get(), text.data() + sent, text.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) sent += size_t(n);
    if (n > 0 || (n < 0 && errno == EINTR)) continue;
    if (n == 0 || errno != EAGAIN) return;
    pollfd fds[] = {{caller.get(), POLLOUT, 0}, {stop_.get(), POLLIN, 0}};
    if (!base::poll_fds(fds, until) || fds[1].revents != 0) return;
  }
}

std::vector<OpenDoor> open_doors() {
  std::vector<OpenDoor> doors;
  for (const std::string& path : base::socket_paths(kDoorPath))
    doors.push_back({base::socket_owner(path), path});
  return doors;
}

Result<std::string> ask_door(const OpenDoor& door, Deadline deadline) {
  const base::Fd fd = door_socket();
  if (!fd) return base::errno_error(ErrorCode::unavailable, "Unix socket", errno);
  const sockaddr_un name = door_name(door.path);
  // A full queue of callers is one that does not answer.
  while (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0) {
    if (errno == EINTR) continue;
    if (errno != EAGAIN || deadline.passed())
      return base::errno_error(errno == EAGAIN ? ErrorCode::deadline : ErrorCode::lost,
                               format("job {}", door.pid), errno);
    base::sleep_until(deadline.earlier(Deadline::after_ms(20)));
  }
  if (!is_this_user(fd.get()))
    return Error(ErrorCode::unavailable, format("{} belongs to another user", door.path));
  std::string text;
  char part[64 << 10];
  while (true) {
    pollfd p{fd.get(), POLLIN, 0};
    COLL_ASSIGN(const int ready, base::poll_fds({&p, 1}, deadline));
    if (ready == 0) return silent(door);
    const ssize_t n = ::recv(fd.get(), part, sizeof part, 0);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n < 0) return base::errno_error(ErrorCode::lost, format("job {}", door.pid), errno);
    if (n == 0) break;
    text.append(part, size_t(n));
    if (text.size() > kMostStatusBytes)
      return Error(ErrorCode::defect, format("the answer of job {} has no end", door.pid));
  }
  if (text.empty()) return Error(ErrorCode::lost, format("job {} has just ended", door.pid));
  if (text == kNoAnswer) return silent(door);
  return text;
}

}  // namespace collctl::cmd
