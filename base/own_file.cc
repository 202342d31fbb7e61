#include "base/own_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/format.h"

namespace collctl::base {

Result<Fd> open_own_file(const std::string& path, bool append, unsigned mode) {
  const bool device = path.starts_with("/dev/") && !path.starts_with("/dev/shm/");
  Fd fd(::open(path.c_str(),
               O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | (append ? O_APPEND : 0) |
                   (device ? 0 : O_NOFOLLOW),
               mode));
  if (!fd && errno == ELOOP)
    return Error(ErrorCode::unavailable, format("open {}: it is a symbolic link", path),
                 "links are not followed there: name the file itself, or another one");
  struct stat s {};
  if (!fd || ::fstat(fd.get(), &s) != 0)
    return errno_error(ErrorCode::unavailable, "open " + path, errno);
  const bool regular = S_ISREG(s.st_mode);
  if (s.st_uid != ::geteuid() && (regular || s.st_uid != 0) && !device)
    return Error(ErrorCode::unavailable, format("open {}: it belongs to user {}", path, s.st_uid),
                 "name a file of your own");
  if (regular && s.st_nlink > 1)
    return Error(ErrorCode::unavailable,
                 format("open {}: the same file has {} names", path, s.st_nlink),
                 "remove it, or name another file");
  // A pipe that nobody reads is an error above, and not waited for; what is written may wait.
  if (::fcntl(fd.get(), F_SETFL, append ? O_APPEND : 0) != 0)
    return errno_error(ErrorCode::unavailable, "open " + path, errno);
  if (regular && !append && ::ftruncate(fd.get(), 0) != 0)
    return errno_error(ErrorCode::unavailable, "empty " + path, errno);
  return fd;
}

}  // namespace collctl::base
