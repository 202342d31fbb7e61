#include "runtime/window/shared_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>

#include "base/format.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

namespace collctl::runtime {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

}  // namespace

Result<base::Fd> make_shared_file(uint64_t bytes) {
  constexpr const char* kName = "collctl-window";
  // Where executable memfds are forbidden the flag is needed; before Linux 6.3 it is unknown.
  base::Fd fd(::memfd_create(kName, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL));
  if (!fd && errno == EINVAL) fd = base::Fd(::memfd_create(kName, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return base::errno_error(ErrorCode::unavailable, "a file in memory", errno);
  if (::ftruncate(fd.get(), off_t(bytes)) != 0 || ::fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0)
    return base::errno_error(ErrorCode::unavailable, format("a file of {} bytes in memory", bytes),
                             errno);
  return fd;
}

Status reserve_shared_file(int fd, uint64_t from, uint64_t bytes, Deadline deadline) {
  int failure = 0;
  do {
    failure = ::posix_fallocate(fd, off_t(from), off_t(bytes));
  } while (failure == EINTR && !deadline.passed());
  if (failure == 0) return {};
  return base::errno_error(ErrorCode::unavailable, format("{} bytes of memory to share", bytes),
                           failure);
}

Status check_shared_file(int fd, uint64_t bytes, int rank) {
  struct stat facts {};
  if (::fstat(fd, &facts) != 0)
    return base::errno_error(ErrorCode::lost, "inspect the window's memory", errno);
  if (S_ISREG(facts.st_mode) && uint64_t(facts.st_size) == bytes &&
      (::fcntl(fd, F_GET_SEALS) & kSeals) == kSeals)
    return {};
  return Error(ErrorCode::lost,
               format("rank {} passed a descriptor that is not {} bytes of sealed memory", rank,
                      bytes))
      .blame(rank);
}

}  // namespace collctl::runtime
