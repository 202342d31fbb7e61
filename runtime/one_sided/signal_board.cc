#include "runtime/one_sided/signal_board.h"

#include <algorithm>
#include <atomic>

#include "base/check.h"
#include "base/format.h"
#include "base/host_facts.h"
#include "base/wait.h"
#include "kernels/cpu/wait.h"
#include "runtime/communicator/communicator.h"
#include "runtime/window/memory.h"

namespace collctl::runtime {
namespace {

// With a core for every rank a signal returns within this; longer only hurts where the scheduler
// has put both ranks on one core, which only a yield tells it.
constexpr int64_t kSignalSpinNs = 1'000;
// Then others may run. A wake-up costs about as much.
constexpr int64_t kSignalYieldNs = 100'000;
// Aborts ring nobody: this is how late a sleeper sees one.
constexpr int64_t kFirstNapNs = 500'000, kLongestNapNs = 10'000'000;
constexpr int kLooksAtOnce = 16;  // between looks at the clock

size_t slot(int rank, int signal) {
  return size_t(rank) * (kSignals + 1) + size_t(signal);
}

}  // namespace

SignalBoard::~SignalBoard() {
  close();
}

Status SignalBoard::open(Communicator& communicator, Deadline deadline) {
  communicator_ = &communicator;
  rank_ = communicator.rank();
  size_ = communicator.size();
  const auto& peers = communicator.peers();
  const auto here = std::count_if(peers.begin(), peers.end(), [&](const auto& peer) {
    return peer.host_hash == peers[size_t(rank_)].host_hash;
  });
  crowded_ = here > base::usable_cores();
  sent_.assign(slot(size_, 0), 0);
  taken_.assign(slot(size_, 0), 0);
  if (communicator.device() != nullptr || size_ == 1) {
    own_.assign(size_t(size_), SignalLine{});
    lines_ = own_.data();
    return {};
  }
  const uint64_t bytes = uint64_t(size_) * sizeof(SignalLine);
  // A rank without memory comes to the registration all the same, so that all ranks hear of it.
  auto memory = allocate_window_memory(bytes);
  WindowRange range{.bytes = bytes};
  if (memory)
    range.address = memory_ = *memory;
  else
    range.missing = &memory.error();
  auto windows = communicator.register_windows({&range, 1}, deadline);
  if (!windows) return std::move(windows.error()).within("window for signals");
  window_ = windows->front();
  lines_ = reinterpret_cast<SignalLine*>(window_->address());
  return {};
}

void SignalBoard::close() {
  if (!boards_.empty()) lines_ = nullptr;
  boards_.clear();
  if (memory_ == nullptr) return;
  // A failure here follows one of the communicator, which reports it.
  if (window_ != nullptr && window_->valid())
    static_cast<void>(communicator_->deregister_windows({&window_, 1}, Deadline::after_seconds(5)));
  window_.reset();
  static_cast<void>(free_window_memory(memory_));
  memory_ = nullptr;
  lines_ = nullptr;
}

Status SignalBoard::raise_at(int peer, int signal) {
  SignalLine* line = nullptr;
  if (window_ == nullptr) {
    line = static_cast<SignalLine*>(boards_.at(peer).get()) + rank_;
  } else {
    COLL_ASSIGN(uint8_t* const at,
                window_->peer(peer, uint64_t(rank_) * sizeof(SignalLine), sizeof(SignalLine)));
    line = reinterpret_cast<SignalLine*>(at);
  }
  // Pairs with the acquire in wait().
  std::atomic_ref<uint64_t>(line->count[signal])
      .store(++sent_[slot(peer, signal)], std::memory_order_release);
  kernels::wake_sleeper(&line->sleepers, -1);
  return {};
}

void SignalBoard::raise_here(int source, int signal, uint64_t times) {
  SignalLine& from = *line(source);
  // Pairs with the acquire in wait(). A source may come by sockets and by RDMA: two threads.
  std::atomic_ref<uint64_t>(from.count[signal]).fetch_add(times, std::memory_order_release);
  kernels::wake_sleeper(&from.sleepers, -1);
}

uint64_t SignalBoard::pending(int source, int signal) const {
  const std::atomic_ref<uint64_t> count(line(source)->count[signal]);
  return count.load(std::memory_order_acquire) - taken_[slot(source, signal)];
}

Result<bool> SignalBoard::wait(int source, int signal, uint64_t times, Deadline deadline,
                               const std::function<Status()>& alive) {
  SignalLine& from = *line(source);
  const std::atomic_ref<uint32_t> sleepers(from.sleepers);
  const int64_t spin_ns = crowded_ ? 0 : kSignalSpinNs;
  int64_t began = 0, waited = 0, nap = kFirstNapNs;
  for (int look = 0; pending(source, signal) < times; ++look) {
    if (began == 0) began = now_ns();
    if (look % kLooksAtOnce == 0 || waited >= spin_ns) waited = now_ns() - began;
    if (waited < spin_ns) {
      kernels::pause_cpu();
      continue;
    }
    if (waited < kSignalYieldNs) {
      base::yield_thread();
      continue;
    }
    if (Status well = alive(); !well) {
      // Signals from before the failure count.
      if (pending(source, signal) >= times) break;
      return std::move(well.error());
    }
    if (deadline.passed()) return false;
    // Ended by wake_sleeper, the nap or the deadline; wait.h says why no news can be missed.
    sleepers.exchange(1, std::memory_order_acq_rel);
    if (pending(source, signal) >= times) break;
    base::futex_wait(&from.sleepers, 1, deadline.earlier(Deadline::after_ns(nap)));
    nap = std::min(2 * nap, kLongestNapNs);
  }
  taken_[slot(source, signal)] += times;
  return true;
}

}  // namespace collctl::runtime
