// Memory of one host that all ranks of a communicator map, a part of it made by each: one file
// without a name (shared_file.h), made by rank 0, which goes to every rank as a descriptor and is
// closed again once it is mapped. Each rank reserves its own part, on its own NUMA node, so that a
// memory limit is an error at start-up and not a SIGBUS later. Start-up's thread.
#pragma once
#include <cstdint>
#include <string>

#include "base/clock.h"
#include "base/fd.h"
#include "base/result.h"
#include "runtime/bootstrap/bootstrap.h"

namespace collctl::runtime {

struct SharedParts {
  int rank = 0, nranks = 1;
  uint64_t part_bytes = 0;  // whole pages (whole_shared_pages)
  uint64_t tag = 0;         // of the descriptor, with the communicator's hash
  Bootstrap* bootstrap = nullptr;
};
// All ranks together: rank r's part is at r x part_bytes. Empty when there is none: `why_not` then
// says what this rank could not do, and is empty where another could not. Errors: the exchange
// itself failed (lost, deadline).
Result<base::Mapping> map_shared_parts(const SharedParts& parts, std::string& why_not,
                                       Deadline deadline);

}  // namespace collctl::runtime
