// A loopback address of this process alone, for tests that give a port back and take it again.
#pragma once
#include <unistd.h>

#include "base/format.h"
#include "base/socket.h"

namespace collctl::test {

// "127.a.b.c:0" by the process id. Connections go out from 127.0.0.1, so no port here is ever lent
// to one of them.
inline Address own_loopback() {
  const auto pid = unsigned(::getpid());
  return *base::parse_address(
      format("127.{}.{}.{}:0", 64 + (pid >> 16 & 63), pid >> 8 & 255, pid & 255));
}

}  // namespace collctl::test
