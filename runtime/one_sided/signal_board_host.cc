// Boards of GPU ranks in memory of their host: each makes a file and passes it to the others of its
// team there.
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>

#include "base/format.h"
#include "base/log.h"
#include "runtime/bootstrap/bootstrap.h"
#include "runtime/communicator/communicator.h"
#include "runtime/one_sided/signal_board.h"
#include "runtime/window/shared_file.h"

namespace collctl::runtime {
namespace {

constexpr uint64_t kBoardFdTag = 0x534947424f;  // with the communicator's hash

Result<base::Mapping> map_board(int fd, uint64_t bytes) {
  void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  if (at == MAP_FAILED)
    return base::errno_error(ErrorCode::unavailable, "map memory for signals", errno);
  return base::Mapping(at, bytes);
}

}  // namespace

Status SignalBoard::make_board(uint64_t bytes, base::Fd& fd) {
  COLL_ASSIGN(fd, make_shared_file(bytes));
  COLL_TRY(reserve_shared_file(fd.get(), 0, bytes, Deadline::after_seconds(10)));
  COLL_ASSIGN(boards_[rank_], map_board(fd.get(), bytes));
  return {};
}

// Errors are of the exchange; what only this rank could not do is in `mine`.
Status SignalBoard::swap_boards(Bootstrap& bootstrap, uint64_t bytes, const base::Fd& own,
                                Status& mine, Deadline deadline) {
  const auto& peers = communicator_->peers();
  std::vector<int> others;
  for (const int peer : communicator_->windows().team())
    if (peer != rank_ && pass_descriptors(peers[size_t(rank_)], peers[size_t(peer)]))
      others.push_back(peer);
  const uint64_t tag = kBoardFdTag ^ communicator_->hash();
  for (const int peer : others) COLL_TRY(bootstrap.send_fd(peer, tag, own.get(), deadline));
  for (const int peer : others) {
    COLL_ASSIGN(const base::Fd theirs, bootstrap.recv_fd(peer, tag, deadline));
    if (mine) mine = check_shared_file(theirs.get(), bytes, peer);
    if (!mine) continue;
    auto mapped = map_board(theirs.get(), bytes);
    if (mapped)
      boards_[peer] = std::move(*mapped);
    else
      mine = std::move(mapped.error());
  }
  return {};
}

Result<bool> SignalBoard::all_could(Bootstrap& bootstrap, const Status& mine,
                                    Deadline deadline) const {
  if (!mine) COLL_INFO(net, "One-sided : signals by the network: {}", mine.error().chain());
  std::vector<uint8_t> could(static_cast<size_t>(size_));
  could[size_t(rank_)] = mine ? 1 : 0;
  COLL_TRY(bootstrap.all_gather(could.data(), 1, deadline));
  return std::all_of(could.begin(), could.end(), [](uint8_t each) { return each == 1; });
}

Status SignalBoard::share_on_host(Bootstrap& bootstrap, Deadline deadline) {
  if (size_ == 1) return {};
  const uint64_t bytes = whole_shared_pages(uint64_t(size_) * sizeof(SignalLine));
  base::Fd fd;
  Status mine = make_board(bytes, fd);
  COLL_ASSIGN(bool all, all_could(bootstrap, mine, deadline));
  if (all) {
    COLL_TRY(swap_boards(bootstrap, bytes, fd, mine, deadline));
    COLL_ASSIGN(all, all_could(bootstrap, mine, deadline));
  }
  if (all)
    lines_ = static_cast<SignalLine*>(boards_.at(rank_).get());
  else
    boards_.clear();
  return {};
}

}  // namespace collctl::runtime
