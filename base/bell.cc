#include "base/bell.h"

#include <sys/eventfd.h>

#include <cerrno>
#include <cstdint>

namespace collctl::base {

Result<Fd> make_bell() {
  Fd fd(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!fd) return errno_error(ErrorCode::unavailable, "eventfd", errno);
  return fd;
}

// The only failure a valid eventfd knows is a counter at its maximum: then it is ringing already.
void ring_bell(int fd) {
  const uint64_t one = 1;
  while (::write(fd, &one, sizeof one) < 0 && errno == EINTR) {
  }
}

void drain_bell(int fd) {
  uint64_t count = 0;
  while (::read(fd, &count, sizeof count) < 0 && errno == EINTR) {
  }
}

}  // namespace collctl::base
