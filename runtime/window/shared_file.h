// Files without a name (memfd) that ranks of one host map together: sealed at their size, so that
// none can truncate memory that others use. They are passed as descriptors and leave nothing
// behind. Threads: any; values only.
#pragma once
#include <cstdint>
#include <string>

#include "base/clock.h"
#include "base/fd.h"
#include "base/host_facts.h"
#include "base/result.h"

namespace collctl::runtime {

inline uint64_t whole_shared_pages(uint64_t bytes) {
  const uint64_t page = base::page_bytes();
  return (bytes + page - 1) / page * page;
}

// Zeroed; `bytes` in whole pages. Error unavailable: not supported, or not of that size.
Result<base::Fd> make_shared_file(uint64_t bytes);
// Memory for a part of it, now, on the calling thread's NUMA node: a limit is an error here and not
// a signal later.
Status reserve_shared_file(int fd, uint64_t from, uint64_t bytes, Deadline deadline);
// Checks that a peer passed such a file of `bytes` bytes. Error lost, blaming `rank`.
Status check_shared_file(int fd, uint64_t bytes, int rank);

}  // namespace collctl::runtime
