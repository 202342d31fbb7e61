#include "runtime/window/shared_parts.h"

#include <sys/mman.h>

#include <cerrno>
#include <vector>

#include "base/format.h"
#include "runtime/window/shared_file.h"

namespace collctl::runtime {
namespace {

// Maps all parts and reserves the own one; empty with the reason when there is no room.
base::Mapping map_file(int fd, const SharedParts& p, Deadline deadline, std::string& why) {
  const uint64_t total = p.part_bytes * uint64_t(p.nranks);
  const Status room =
      reserve_shared_file(fd, p.part_bytes * uint64_t(p.rank), p.part_bytes, deadline);
  if (!room) {
    why = room.error().chain();
    return {};
  }
  void* at = ::mmap(nullptr, total, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) {
    why = base::errno_error(ErrorCode::unavailable, format("map {} bytes of shared memory", total),
                            errno)
              .message;
    return {};
  }
  return {at, total};
}

}  // namespace

Result<base::Mapping> map_shared_parts(const SharedParts& p, std::string& why_not,
                                       Deadline deadline) {
  why_not.clear();
  const uint64_t total = p.part_bytes * uint64_t(p.nranks);
  base::Fd fd;
  if (p.rank == 0) {
    auto made = make_shared_file(total);
    if (made)
      fd = std::move(*made);
    else
      why_not = made.error().chain();
  }
  // Whether a descriptor will arrive.
  std::vector<uint8_t> made(static_cast<size_t>(p.nranks));
  made[size_t(p.rank)] = fd ? 1 : 0;
  COLL_TRY_IN(p.bootstrap->all_gather(made.data(), 1, deadline), "window");
  if (made[0] == 0) return base::Mapping();
  if (p.rank == 0) {
    for (int peer = 1; peer < p.nranks; ++peer)
      COLL_TRY_IN(p.bootstrap->send_fd(peer, p.tag, fd.get(), deadline), "window");
  } else {
    COLL_ASSIGN(fd, p.bootstrap->recv_fd(0, p.tag, deadline));
    COLL_TRY(check_shared_file(fd.get(), total, 0));
  }
  return map_file(fd.get(), p, deadline, why_not);
}

}  // namespace collctl::runtime
