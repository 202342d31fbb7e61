// Memory that processes of one host share: a file in /dev/shm without a name, whose descriptor one
// passes to the other. Threads: any.
#pragma once
#include "base/clock.h"
#include "base/fd.h"
#include "base/result.h"

namespace collctl::transport {

// All its pages are there: a full /dev/shm is this error (unavailable) and no SIGBUS later.
Result<base::Fd> shared_file(size_t bytes, Deadline deadline);
// Error lost: not a file of that size.
Result<base::Mapping> map_shared(int fd, size_t bytes);

}  // namespace collctl::transport
