#include "runtime/one_sided/one_sided.h"

#include <algorithm>
#include <cstring>

#include "base/format.h"
#include "kernels/cpu/fault.h"
#include "transport/edge.h"

namespace collctl::runtime {
namespace {

constexpr int64_t kNewsMs = 1000;  // that news of an abort may take round all ranks

Error usage(std::string message) {
  return {ErrorCode::usage, std::move(message)};
}

}  // namespace

Status OneSided::share(std::span<const WindowPointer> windows, Deadline deadline) {
  Status mine;
  std::vector<OneSidedRdma::Shared> shared;
  for (const WindowPointer& window : windows) {
    if (Status usable = check_window(window); !usable) {
      mine = std::move(usable);
      continue;
    }
    if (network_ == nullptr) continue;
    auto hold = WindowHold::of(window->address(), window->bytes());
    if (!hold) {
      mine = std::move(hold.error());
      continue;
    }
    network_->admit(window->number(), window->address(), window->bytes());
    if (rdma_ != nullptr)
      shared.push_back(
          {.number = window->number(),
           .window = {.address = window->address(), .bytes = window->bytes()},
           .pages = {.address = hold->segment().data(), .bytes = hold->segment().bytes()}});
    shared_[window->number()] = std::move(*hold);
  }
  if (rdma_ != nullptr) COLL_TRY(rdma_->share(shared, wait_limit(deadline)));
  COLL_TRY(barrier(deadline));
  return mine;
}

Status OneSided::withdraw(std::span<const WindowPointer> windows, Deadline deadline) {
  // Before the barrier: behind it peers may share others under the same numbers.
  for (const WindowPointer& window : windows)
    if (rdma_ != nullptr && window != nullptr) rdma_->forget(window->number());
  Status arrived = barrier(deadline);
  for (const WindowPointer& window : windows) {
    if (window == nullptr) continue;
    if (network_ != nullptr) network_->dismiss(window->number());
    if (rdma_ != nullptr) rdma_->dismiss(window->number());
    shared_.erase(window->number());
  }
  return arrived;
}

bool OneSided::direct(int peer) const {
  return peer == communicator_.rank() || team_[size_t(peer)];
}

std::string OneSided::path(int peer) const {
  if (peer == communicator_.rank()) return "own";
  if (direct(peer)) return "window";
  const bool rdma = rdma_ != nullptr && rdma_->links(peer) && rdma_->refused_by(peer).empty();
  return rdma ? rdma_->via(peer) : "NET/Socket";
}

std::string OneSided::why(int peer) const {
  if (direct(peer)) return "";
  const auto refused = why_.find(peer);
  if (refused != why_.end() && !refused->second.empty()) return refused->second;
  return rdma_ != nullptr ? rdma_->refused_by(peer) : "";
}

Status OneSided::check_peer(int peer, int signal) const {
  if (peer < 0 || peer >= communicator_.size())
    return usage(format("rank {} of {}: there is no such rank", peer, communicator_.size()));
  if (signal < 0 || signal >= kSignals)
    return usage(format("signal {}: expected 0..{}", signal, kSignals - 1));
  return {};
}

Status OneSided::check_window(const WindowPointer& window) const {
  if (window == nullptr || !window->valid())
    return usage("the window is not registered, or was deregistered");
  if (!window->belongs_to(communicator_.windows()))
    return usage(format("window {} is of another communicator", window->number()));
  return {};
}

Status OneSided::check(const WindowPlace& place, uint64_t bytes) const {
  COLL_TRY(check_peer(place.rank, 0));
  COLL_TRY(check_window(place.window));
  const uint64_t all = place.window->bytes();
  if (bytes > all || place.offset > all - bytes)
    return usage(format("{} bytes at {} of a window of {} bytes: range exceeds the window", bytes,
                        place.offset, all));
  return {};
}

// A peer that leaves because of what another rank says may be ahead of the news of it: that is then
// the error. Waited for once of each peer.
Error OneSided::named(Error error, int peer, Deadline deadline) {
  if (error.code == ErrorCode::lost) {
    // A failure here is the cause, whatever the other ranks report.
    if (network_ != nullptr)
      if (Status here = network_->failure_of(communicator_.rank()); !here)
        return std::move(here.error());
    if (!deadline.passed() && lost_peers_.insert(peer).second)
      services_.wait_for_notice(deadline.earlier(Deadline::after_ms(kNewsMs)));
    if (Status told = communicator_.async_error(); !told) return std::move(told.error());
  }
  return std::move(error).blame(error.rank >= 0 ? error.rank : peer);
}

Status OneSided::move(void* to, const void* from, uint64_t bytes, Deadline deadline) {
  if (communicator_.device() == nullptr) {
    std::memmove(to, from, bytes);
    return {};
  }
  return copy_by(stream_, to, from, bytes, deadline);
}

// An error is this rank's, not the receiver's; operations already run, so unavailable becomes lost.
Status OneSided::copy_by(const transport::DeviceStream& stream, void* to, const void* from,
                         uint64_t bytes, Deadline deadline) const {
  Status copied = stream.copy(to, from, bytes);
  if (copied) copied = stream.synchronize(deadline);
  if (copied) return {};
  Error& error = copied.error();
  if (error.rank < 0) error.rank = communicator_.rank();
  if (error.code == ErrorCode::unavailable) error.code = ErrorCode::lost;
  return copied;
}

Status OneSided::put(const WindowPlace& to, const void* from, uint64_t bytes, Deadline deadline) {
  return put_then(to, from, bytes, -1, deadline);
}

Status OneSided::put_then(const WindowPlace& to, const void* from, uint64_t bytes, int signal,
                          Deadline deadline) {
  COLL_TRY(check(to, bytes));
  if (bytes == 0) return signal < 0 ? Status() : raise(to.rank, signal, deadline);
  Bytes damaged;
  if (fault_.kind == kernels::FaultKind::corrupt && fault_.rank == communicator_.rank() &&
      puts_ == fault_.step && communicator_.device() == nullptr) {
    const auto* const bytes_of = static_cast<const uint8_t*>(from);
    damaged.assign(bytes_of, bytes_of + bytes);
    kernels::flip_a_bit(damaged.data());
    from = damaged.data();
  }
  ++puts_;
  if (direct(to.rank)) {
    COLL_ASSIGN(uint8_t* const at, to.window->peer(to.rank, to.offset, bytes));
    COLL_TRY(move(at, from, bytes, deadline));
    return signal < 0 ? Status() : raise(to.rank, signal, deadline);
  }
  return put_remote(to, from, bytes, signal, deadline);
}

// To a rank that is not of the team.
Status OneSided::put_remote(const WindowPlace& to, const void* from, uint64_t bytes, int signal,
                            Deadline deadline) {
  COLL_ASSIGN(const bool rdma, take_route(to, deadline));
  const OneSidedNetwork::Range range{to.window->number(), to.offset, bytes};
  Status done = rdma ? rdma_->put(to.rank, range, from, signal, wait_limit(deadline))
                     : network_->put(to.rank, range, from, wait_limit(deadline));
  if (!done) return named(std::move(done.error()), to.rank, deadline);
  return rdma || signal < 0 ? Status() : raise(to.rank, signal, deadline);
}

Result<bool> OneSided::take_route(const WindowPlace& to, Deadline deadline) {
  const bool rdma = rdma_ != nullptr && rdma_->reaches(to.rank, to.window->number());
  if (rdma != by_rdma_[size_t(to.rank)]) COLL_TRY(flush(to.rank, deadline));
  by_rdma_[size_t(to.rank)] = rdma;
  return rdma;
}

OneSidedNetwork::WaitLimit OneSided::wait_limit(Deadline deadline) const {
  return {deadline, [this] { return communicator_.async_error(); }};
}

Status OneSided::get(const WindowPlace& from, void* to, uint64_t bytes, Deadline deadline) {
  COLL_TRY(check(from, bytes));
  if (bytes == 0) return {};
  if (direct(from.rank)) {
    COLL_ASSIGN(const uint8_t* const at, from.window->peer(from.rank, from.offset, bytes));
    return move(to, at, bytes, deadline);
  }
  const OneSidedNetwork::Range range{from.window->number(), from.offset, bytes};
  const bool rdma = rdma_ != nullptr && rdma_->reaches(from.rank, from.window->number());
  Status done = rdma ? rdma_->get(from.rank, range, to, wait_limit(deadline))
                     : network_->get(from.rank, range, to, wait_limit(deadline));
  if (!done) return named(std::move(done.error()), from.rank, deadline);
  return {};
}

Status OneSided::raise(int peer, int line, Deadline deadline) {
  if (peer == communicator_.rank()) {
    board_.raise_here(peer, line);
    return {};
  }
  if (board_.reaches(peer)) return board_.raise_at(peer, line);
  Status done = by_rdma_[size_t(peer)] ? rdma_->signal(peer, line) : network_->signal(peer, line);
  if (!done) return named(std::move(done.error()), peer, deadline);
  return {};
}

Status OneSided::signal(int peer, int signal) {
  COLL_TRY(check_peer(peer, signal));
  return raise(peer, signal, Deadline::after_ms(0));
}

Status OneSided::put_signal(const WindowPlace& to, const void* from, uint64_t bytes, int signal,
                            Deadline deadline) {
  COLL_TRY(check_peer(to.rank, signal));
  return put_then(to, from, bytes, signal, deadline);
}

Status OneSided::await(int peer, int line, uint64_t times, Deadline deadline) {
  const auto arrived = board_.wait(peer, line, times, deadline, [this, peer]() -> Status {
    COLL_TRY(communicator_.async_error());
    if (rdma_ != nullptr) COLL_TRY(rdma_->health(peer));
    Status sockets = network_ != nullptr ? network_->health(peer) : Status();
    if (!sockets && rdma_ != nullptr && rdma_->may_signal(peer)) return {};
    return sockets;
  });
  if (!arrived) return named(arrived.error(), peer, deadline);
  if (*arrived) return {};
  const std::string what = line == kBarrierSignal ? "a barrier" : format("signal {}", line);
  return Error(ErrorCode::deadline,
               format("rank {} waited for {} from {}, which arrived {} of {} times",
                      communicator_.rank(), what,
                      transport::peer_text(communicator_.peers()[size_t(peer)]),
                      board_.pending(peer, line), times))
      .blame(peer);
}

Status OneSided::wait(int peer, int signal, uint64_t times, Deadline deadline) {
  COLL_TRY(check_peer(peer, signal));
  return await(peer, signal, times, deadline);
}

Status OneSided::flush(int peer, Deadline deadline) {
  COLL_TRY(check_peer(peer, 0));
  // Stores of this thread are ordered by the next signal or barrier.
  if (direct(peer) || network_ == nullptr) return {};
  Status done;
  if (rdma_ != nullptr && rdma_->links(peer)) done = rdma_->fence(peer, wait_limit(deadline));
  if (done) done = network_->fence(peer, wait_limit(deadline));
  if (!done) return named(std::move(done.error()), peer, deadline);
  return {};
}

// Dissemination: in round k a rank tells the one 2^k ahead and hears the one 2^k behind, so that
// after ceil(log2 n) rounds it has heard of everybody. No source speaks twice in one barrier, so
// one counter for each is enough.
Status OneSided::barrier(Deadline deadline) {
  const int rank = communicator_.rank(), size = communicator_.size();
  for (int peer = 0; peer < size; ++peer)
    if (peer != rank) COLL_TRY(flush(peer, deadline));
  for (int step = 1; step < size; step *= 2) {
    COLL_TRY(raise((rank + step) % size, kBarrierSignal, deadline));
    COLL_TRY(await((rank - step + size) % size, kBarrierSignal, 1, deadline));
  }
  return {};
}

}  // namespace collctl::runtime
