#include "base/whole_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "base/fd.h"
#include "base/format.h"
#include "base/held_signals.h"

namespace collctl::base {
namespace {

// Devices and pipes (/dev/stdout, /dev/full) cannot be renamed over; they are written as they are.
bool is_special(const std::string& path) {
  struct stat existing {};
  return ::stat(path.c_str(), &existing) == 0 && !S_ISREG(existing.st_mode);
}

}  // namespace

Status write_file_atomically(const std::string& path, const std::string& content, int mode) {
  const auto failed = [&](const char* what, int error_number) {
    return errno_error(ErrorCode::unavailable, format("{} {}", what, path), error_number);
  };
  const bool special = is_special(path);
  // A pipe may block for ever, so it can be interrupted; a file leaves no half behind.
  std::optional<HeldSignals> whole;
  if (!special) whole.emplace();
  std::string temporary = special ? path : path + ".XXXXXX";
  Fd file(special ? ::open(path.c_str(), O_WRONLY | O_CLOEXEC)
                  : ::mkostemp(temporary.data(), O_CLOEXEC));
  if (!file) return failed("cannot write", errno);
  const auto fail = [&](const char* what) -> Status {
    const int error_number = errno;
    if (!special) ::unlink(temporary.c_str());
    return failed(what, error_number);
  };
  for (std::string_view rest = content; !rest.empty();) {
    const ssize_t written = ::write(file.get(), rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return fail("cannot write");
    rest.remove_prefix(size_t(written));
  }
  if (special) return {};
  // mkostemp makes private files; a report is as readable as the umask lets new files be.
  const mode_t mask = ::umask(022);
  ::umask(mask);
  if (::fchmod(file.get(), mode_t(mode) & ~mask) != 0) return fail("cannot write");
  if (::fsync(file.get()) != 0 && errno != EINVAL) return fail("cannot write");
  if (::rename(temporary.c_str(), path.c_str()) != 0) return fail("cannot replace");
  return {};
}

namespace {

Result<std::string> read_whole(const std::string& path, size_t most, bool trusted) {
  // A pipe may have no writer: it is opened without waiting for one, and refused.
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat found {};
  if (!file || ::fstat(file.get(), &found) != 0) return errno_error(ErrorCode::usage, path, errno);
  if (!S_ISREG(found.st_mode)) return Error(ErrorCode::usage, path + ": not a file");
  if (trusted && found.st_uid != 0 && found.st_uid != ::geteuid())
    return Error(ErrorCode::usage, format("{}: it belongs to user {}", path, found.st_uid));
  if (trusted && (found.st_mode & 022) != 0)
    return Error(ErrorCode::usage,
                 format("{}: others may write it (mode {:o})", path, found.st_mode & 0777));
  std::string text;
  char block[64 << 10];
  for (;;) {
    const ssize_t got = ::read(file.get(), block, sizeof block);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno_error(ErrorCode::usage, path, errno);
    if (got == 0) return text;
    text.append(block, size_t(got));
    if (text.size() > most)
      return Error(ErrorCode::usage, format("{}: longer than {} bytes", path, most));
  }
}

}  // namespace

Result<std::string> read_file(const std::string& path, size_t most) {
  return read_whole(path, most, false);
}

Result<std::string> read_trusted_file(const std::string& path, size_t most) {
  return read_whole(path, most, true);
}

}  // namespace collctl::base
