#include "cmd/job/token.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/auth.h"
#include "base/env.h"
#include "base/format.h"
#include "base/socket_folder.h"

namespace collctl::cmd {
namespace {

constexpr size_t kMostTokenBytes = 4096;
constexpr int64_t kTokenLookMs = 20;
// A path's number: what it is for and the port, so that it meets no socket's random one.
constexpr uint64_t kTokenPath = uint64_t(0x70ce) << 16;

Error token_error(const std::string& path, const std::string& text, const std::string& hint = "") {
  return {ErrorCode::usage, format("--token-file {}: {}", path, text), hint};
}

// Root's own may be readable by a group: that is how Kubernetes mounts secrets.
Status check_owner(const std::string& path, const struct stat& s) {
  const char* const remedy = "a token file is its user's alone: chown, chmod 600";
  if (s.st_uid != ::geteuid() && s.st_uid != 0)
    return token_error(path, format("it belongs to user {}", s.st_uid), remedy);
  if ((s.st_mode & (s.st_uid == 0 && ::geteuid() != 0 ? 027 : 077)) != 0)
    return token_error(path, format("others may read or write it (mode {:o})", s.st_mode & 0777),
                       remedy);
  return {};
}

Result<std::string> read_token(const std::string& path, Deadline deadline) {
  const base::Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd) return base::errno_error(ErrorCode::usage, format("--token-file {}", path), errno);
  struct stat s {};
  if (::fstat(fd.get(), &s) != 0)
    return base::errno_error(ErrorCode::usage, format("--token-file {}", path), errno);
  if (!S_ISREG(s.st_mode) && !S_ISFIFO(s.st_mode))
    return token_error(path, "it is neither a file nor a pipe");
  COLL_TRY(check_owner(path, s));
  std::string text;
  while (text.size() <= kMostTokenBytes) {
    pollfd p{fd.get(), POLLIN, 0};  // a pipe that nobody has opened to write yet is not at its end
    COLL_ASSIGN(const int ready, base::poll_fds({&p, 1}, deadline));
    if (ready == 0) return token_error(path, "nobody has written a token into this pipe");
    char part[512];
    const ssize_t n = ::read(fd.get(), part, sizeof part);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n < 0) return base::errno_error(ErrorCode::usage, format("--token-file {}", path), errno);
    if (n == 0) break;
    text.append(part, size_t(n));
  }
  if (text.size() > kMostTokenBytes)
    return token_error(path, format("longer than {} bytes", kMostTokenBytes));
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' '))
    text.pop_back();
  if (text.empty()) return token_error(path, "is empty");
  return text;
}

uint64_t number_of(const Address& at) {
  return kTokenPath | at.port();
}

// The token that rank 0 wrote; empty: it has not finished yet.
std::string read_local(const std::string& path) {
  const base::Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat s {};
  if (!fd || ::fstat(fd.get(), &s) != 0 || !S_ISREG(s.st_mode) || s.st_uid != ::geteuid())
    return {};
  char text[64];
  const ssize_t n = ::read(fd.get(), text, sizeof text);
  return n == ssize_t(2 * sizeof(base::Secret)) ? std::string(text, size_t(n)) : std::string();
}

}  // namespace

Result<std::string> given_token(const std::string& token_file, double seconds) {
  const base::KnobValue knob = base::knob_value(base::KnobId::token);
  std::string token = knob.text;
  if (!token_file.empty()) {
    COLL_ASSIGN(token, read_token(token_file, Deadline::after_seconds(seconds)));
  }
  if (!token.empty() && token.size() < kLeastTokenBytes)
    return Error(ErrorCode::usage,
                 format("the token in {} has {} characters: at least {} are needed, or it can be "
                        "guessed",
                        token_file.empty() ? knob.origin : "--token-file " + token_file,
                        token.size(), kLeastTokenBytes),
                 "collctl token prints a new one");
  return token;
}

Result<std::string> new_token() {
  COLL_ASSIGN(const base::Secret secret, base::random_secret());
  std::string text;
  for (const uint8_t byte : secret.bytes) text += format("{:02x}", byte);
  return text;
}

Result<std::unique_ptr<LocalToken>> LocalToken::make(const Address& at) {
  std::unique_ptr<LocalToken> made(new LocalToken);
  COLL_ASSIGN(made->text_, new_token());
  COLL_ASSIGN(const std::string folder, base::known_socket_folder());
  const std::string path = base::socket_path(folder, number_of(at));
  const base::Fd fd(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd)
    return base::errno_error(ErrorCode::unavailable, "leave a token for local ranks at " + path,
                             errno);
  made->folder_ = folder;
  made->path_ = path;
  // Too short to be written in parts.
  if (::write(fd.get(), made->text_.data(), made->text_.size()) != ssize_t(made->text_.size()))
    return base::errno_error(ErrorCode::unavailable, "leave a token for local ranks at " + path,
                             errno);
  return made;
}

LocalToken::~LocalToken() {
  if (path_.empty()) return;
  ::unlink(path_.c_str());
  base::tidy_socket_folder(folder_.c_str());
}

Result<std::string> find_local_token(const Address& at, Deadline deadline,
                                     const std::function<bool()>& cancelled) {
  while (true) {
    for (const std::string& path : base::socket_paths(number_of(at)))
      if (const std::string text = read_local(path); !text.empty()) return text;
    if (deadline.passed() || cancelled())
      return Error(
          ErrorCode::lost, format("{}: no rank 0 of this user has started here", at.text()),
          "without a token only processes of one user on one host, which see the same "
          "/dev/shm, can join; else give every rank the same COLLCTL_TOKEN or --token-file");
    base::sleep_until(deadline.earlier(Deadline::after_ms(kTokenLookMs)));
  }
}

}  // namespace collctl::cmd
