#include "transport/memory/shared_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/auth.h"
#include "base/format.h"
#include "base/host_facts.h"

namespace collctl::transport {
namespace {

constexpr const char* kDirectory = "/dev/shm";

std::string size_text(uint64_t bytes) {
  if (bytes >= 10u << 20) return format("{} MiB", bytes >> 20);
  return bytes >= 10u << 10 ? format("{} KiB", bytes >> 10) : format("{} bytes", bytes);
}

Error no_room(size_t needed) {
  const base::ShmSpace space = base::shm_space();
  const uint64_t advised_mib =
      std::max<uint64_t>(((space.total_bytes + 64 * needed) >> 20) + 1, 64);
  return {ErrorCode::unavailable,
          format("{} of shared memory are needed, {} of {} are free in {}", size_text(needed),
                 size_text(space.free_bytes), size_text(space.total_bytes), kDirectory),
          format("make it larger (mount -o remount,size={}M {}; in a container: docker run "
                 "--shm-size={}m), use smaller buffers (COLLCTL_BUFFSIZE), or --transport net",
                 advised_mib, kDirectory, advised_mib)};
}

// A file in /dev/shm that nobody else can open by name.
Result<base::Fd> nameless_file() {
  base::Fd fd(::open(kDirectory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (fd) return fd;
  // Old kernels answer EISDIR or ENOENT, file systems without the feature EOPNOTSUPP: then make a
  // name that cannot be guessed and take it away before anything else happens.
  if (errno != EISDIR && errno != ENOENT && errno != EOPNOTSUPP)
    return base::errno_error(ErrorCode::unavailable, format("a file in {}", kDirectory), errno);
  COLL_ASSIGN(const base::Secret random, base::random_secret());
  std::string name = format("{}/collctl-", kDirectory);
  for (const uint8_t byte : random.bytes) name += format("{:02x}", byte);
  fd = base::Fd(::open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd)
    return base::errno_error(ErrorCode::unavailable, format("a file in {}", kDirectory), errno);
  if (::unlink(name.c_str()) != 0)
    return base::errno_error(ErrorCode::unavailable, format("remove {}", name), errno);
  return fd;
}

}  // namespace

Result<base::Fd> shared_file(size_t bytes, Deadline deadline) {
  COLL_ASSIGN(base::Fd fd, nameless_file());
  int failure = 0;
  do {
    failure = ::posix_fallocate(fd.get(), 0, off_t(bytes));
  } while (failure == EINTR && !deadline.passed());
  if (failure == ENOSPC || failure == ENOMEM || failure == EDQUOT || failure == EFBIG)
    return no_room(bytes);
  if (failure != 0)
    return base::errno_error(ErrorCode::unavailable, format("reserve memory in {}", kDirectory),
                             failure);
  return fd;
}

Result<base::Mapping> map_shared(int fd, size_t bytes) {
  struct stat facts {};
  if (::fstat(fd, &facts) != 0)
    return base::errno_error(ErrorCode::lost, "inspect shared memory", errno);
  if (!S_ISREG(facts.st_mode) || facts.st_size < 0 || uint64_t(facts.st_size) < bytes)
    return Error(ErrorCode::lost,
                 format("a descriptor was passed that is not {} bytes of shared memory", bytes));
  void* block = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (block == MAP_FAILED)
    return base::errno_error(ErrorCode::unavailable,
                             format("map {} of shared memory", size_text(bytes)), errno);
  return base::Mapping(block, bytes);
}

}  // namespace collctl::transport
