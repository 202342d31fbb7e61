#include "kernels/cpu/window_cpu.h"

#include <cstring>

#include "base/check.h"
#include "kernels/cpu/fault.h"
#include "kernels/cpu/stage_copy.h"
#include "kernels/cpu/wait.h"

namespace collctl::kernels {
namespace {

// A rank that arrives together with the others finds them within these looks, without the clock
// and the counting of PatientWait. Where ranks share cores the first look decides.
constexpr int kEagerLooks = 64;
constexpr uint64_t kReducedBytes = 16384;

}  // namespace

void CpuWindow::wake(WindowLine& own) {
  std::atomic_ref<uint32_t>(own.sleepers).exchange(0, std::memory_order_acq_rel);
  ring_bell(&own.sleepers, -1);
}

// Ended by the peer's arrival, or aborted. Pairs with the store in arrive_and_wait().
bool CpuWindow::wait_for(int peer) {
  WindowLine& line = *shape_.line(peer, bank_);
  const base::WaitPolicy* policy = work_.context.waiting;
  const int looks = policy != nullptr && policy->spins() ? kEagerLooks : 0;
  for (int i = 0; i < looks; ++i) {
    pause_cpu();
    const bool there = has_arrived(peer);
    // Data beside the arrival travels together with it.
    for (uint64_t at = kCacheLine; at < used_bytes(); at += kCacheLine)
      __builtin_prefetch(byte_of(line, at));
    if (there) return true;
  }
  uint64_t seen = 0;
  const auto ready = [&] {
    seen = std::atomic_ref<uint64_t>(line.arrived).load(std::memory_order_seq_cst);
    return seen >= arrivals_;
  };
  PatientWait wait(work_, {.sleeper = &line.sleepers,
                           .peer = peer,
                           .side = WaitSide::recv,
                           .step = arrivals_ - 1,
                           .seen = &seen,
                           .wanted = arrivals_,
                           .shared = true});
  while (!ready())
    if (!wait.turn()) return false;
  return true;
}

// A rank whose buffers lie in windows and one whose do not take different paths.
bool CpuWindow::refuse_use(int peer) {
  const uint32_t kind = line(peer).kind;
  Report report = work_.report(ReportCode::bad_data);
  report.side = WaitSide::recv;
  report.peer = peer;
  report.step = arrivals_ - 1;
  report.seen = kind;
  report.wanted = uint64_t(use_);
  work_.fail(report);
  return false;
}

void CpuWindow::reduce(uint64_t in, uint64_t at, uint64_t out, uint64_t n, bool post, bool stages) {
  if (n == 0 || work_.failed()) return;
  const FaultKind fault = due_fault();
  if (work_.failed()) return;
  const void* sources[kMaxWindowRanks + 1];
  for (int r = 0; r < shape_.nranks; ++r) sources[r] = staged(r, at);
  sources[shape_.rank] = input_ + in * work_.element_bytes;
  void* destinations[2] = {output_ + out * work_.element_bytes, staged(shape_.rank, at)};
  const uint32_t divisor = post ? work_.post_divisor : 1;
  if (fault == FaultKind::none && stages && n * work_.element_bytes >= kStreamedBytes)
    reduce_and_copy(sources, destinations, n, divisor);
  else if (fault == FaultKind::none)
    work_.reduce(sources, shape_.nranks, destinations, stages ? 2 : 1, n, divisor);
  else
    reduce_with_fault(work_, fault, sources, destinations, stages ? 2 : 1, n, divisor);
}

// Piece by piece, so that what was reduced is still in the first-level cache when it is staged. Two
// destinations at once crawl: vector stores into lines that a peer has read wait for each of them,
// where a long copy does not (a trial of two ranks, 512 KiB: 62 us in place of 32).
void CpuWindow::reduce_and_copy(const void** sources, void* const* destinations, uint64_t n,
                                uint32_t divisor) {
  const uint64_t each = kReducedBytes / work_.element_bytes;
  const bool streams = work_.context.pace.streams();
  for (uint64_t done = 0; done < n; done += each) {
    const uint64_t part = n - done < each ? n - done : each, bytes = done * work_.element_bytes;
    const void* from[kMaxWindowRanks];
    for (int r = 0; r < shape_.nranks; ++r)
      from[r] = static_cast<const uint8_t*>(sources[r]) + bytes;
    void* to = static_cast<uint8_t*>(destinations[0]) + bytes;
    work_.reduce(from, shape_.nranks, &to, 1, part, divisor);
    stage_copy(static_cast<uint8_t*>(destinations[1]) + bytes, to, part * work_.element_bytes,
               streams);
  }
}

void CpuWindow::copy_from_peer(int peer, uint64_t at, uint64_t out, uint64_t n) {
  if (n == 0 || work_.failed()) return;
  const FaultKind fault = due_fault();
  if (work_.failed()) return;
  void* to = output_ + out * work_.element_bytes;
  if (fault != FaultKind::none) return copy_with_fault(work_, fault, staged(peer, at), to, n);
  std::memcpy(to, staged(peer, at), n * work_.element_bytes);
}

FaultKind CpuWindow::due_fault() {
  return work_.fault_armed ? apply_fault(work_) : FaultKind::none;
}

}  // namespace collctl::kernels
