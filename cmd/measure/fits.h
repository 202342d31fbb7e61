// Whether the buffers of a host's CPU ranks fit before any is made: the kernel gives memory as it
// is touched, and kills the one that touches the last of it. Threads: any.
#pragma once
#include <cstdint>
#include <string>

#include "base/result.h"

namespace collctl::cmd {

struct HostMemory {
  uint64_t ranks = 1, bytes = 0;  // of the host; 0 bytes: not known
  // Memory of the control group around this rank (container, job), and how many of those ranks are
  // in it; 0 bytes: no limit.
  uint64_t group_ranks = 1, group_bytes = 0;
};
// `what`: "allreduce of 1 GiB"; `each`: bytes of a rank. Error: unavailable.
Status fits_in_memory(const std::string& what, uint64_t each, const HostMemory& memory);

}  // namespace collctl::cmd
