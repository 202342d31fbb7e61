// The counters that signals raise and waits look at: one line for each rank that may signal this
// one, written by that rank alone where it maps this rank's memory, else by the threads that serve
// the networks. Used by one_sided only. Threads: signals are raised by any; waiting is the
// communicator's.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/result.h"
#include "runtime/window/user_window.h"

namespace collctl::runtime {

class Bootstrap;
class Communicator;

inline constexpr int kSignals = 6;               // of users
inline constexpr int kBarrierSignal = kSignals;  // and one of ours

// Zeroed at creation. `count` of each signal only grows; `sleepers` is an eventcount word.
struct SignalLine {
  alignas(64) uint64_t count[kSignals + 1];
  uint32_t sleepers;
  uint32_t reserved;
};
static_assert(sizeof(SignalLine) == 64);

class SignalBoard {
 public:
  SignalBoard() = default;
  ~SignalBoard();
  SignalBoard(const SignalBoard&) = delete;
  SignalBoard& operator=(const SignalBoard&) = delete;

  // All ranks together. In a window of its own on CPU ranks; on GPU ranks, whose windows are GPU
  // memory, no rank reaches it before share_on_host().
  Status open(Communicator& communicator, Deadline deadline);
  // GPU ranks, all together: boards in files that the ranks of a team on one host map. Where a rank
  // cannot, all signals use the network, as those to other hosts do.
  Status share_on_host(Bootstrap& bootstrap, Deadline deadline);
  void close();
  // The peer's board can be written by stores.
  bool reaches(int peer) const {
    return window_ != nullptr ? window_->reaches(peer) : boards_.contains(peer);
  }
  // The window that boards lie in, the same number on all ranks; 0: none.
  uint64_t number() const { return window_ != nullptr ? window_->number() : 0; }

  // At a peer that reaches(). A rank that sees the signal sees everything this rank did before.
  Status raise_at(int peer, int signal);
  // A signal from `source` that arrived over the network, `times` times. Any thread.
  void raise_here(int source, int signal, uint64_t times = 1);
  // Until the signal of `source` was raised `times` times more than waited for so far. `alive` says
  // what has broken meanwhile. False: the deadline passed.
  Result<bool> wait(int source, int signal, uint64_t times, Deadline deadline,
                    const std::function<Status()>& alive);
  // How often it was raised and not waited for.
  uint64_t pending(int source, int signal) const;

 private:
  Status make_board(uint64_t bytes, base::Fd& fd);
  Status swap_boards(Bootstrap& bootstrap, uint64_t bytes, const base::Fd& own, Status& mine,
                     Deadline deadline);
  Result<bool> all_could(Bootstrap& bootstrap, const Status& mine, Deadline deadline) const;
  SignalLine* line(int source) const { return lines_ + source; }

  Communicator* communicator_ = nullptr;
  int rank_ = 0, size_ = 1;
  bool crowded_ = false;  // more ranks than cores: do not spin
  void* memory_ = nullptr;
  WindowPointer window_;
  std::vector<SignalLine> own_;          // without a window
  std::map<int, base::Mapping> boards_;  // of GPU ranks: by rank of this team and host
  SignalLine* lines_ = nullptr;          // of this rank, by source
  std::vector<uint64_t> sent_, taken_;   // by peer and signal
};

}  // namespace collctl::runtime
