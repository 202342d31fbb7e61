#include "cmd/text/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/format.h"

namespace collctl::cmd {

Status check_writable(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "."
                             : slash == 0               ? "/"
                                                        : path.substr(0, slash);
  struct stat existing {};
  const bool exists = ::stat(path.c_str(), &existing) == 0;
  if (exists && S_ISDIR(existing.st_mode))
    return base::errno_error(ErrorCode::unavailable, format("cannot write {}", path), EISDIR);
  const bool special = exists && !S_ISREG(existing.st_mode);
  if (::access(special ? path.c_str() : folder.c_str(), special ? W_OK : W_OK | X_OK) == 0)
    return {};
  return base::errno_error(ErrorCode::unavailable, format("cannot write {}", path), errno);
}

Status append_line(int fd, const std::string& path, std::string_view line) {
  while (!line.empty()) {
    const ssize_t written = ::write(fd, line.data(), line.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0)
      return base::errno_error(ErrorCode::unavailable, format("cannot write {}", path), errno);
    line.remove_prefix(size_t(written));
  }
  return {};
}

}  // namespace collctl::cmd
