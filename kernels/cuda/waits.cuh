// The traces that the waits of kernels leave for the host (contract/waits.h): a note at every rare
// look of a long one, and, where somebody wants to know, the time of all by peer: the mean of the
// blocks. One thread of those of a block that wait for the same counts. All out of line: what does
// not wait stays short.
#pragma once
#include "kernels/contract/waits.h"
#include "kernels/cuda/report.cuh"

namespace collctl::kernels::cuda {

// shared.waits is not null.
static __device__ __noinline__ void add_wait(const DeviceShared& shared, int peer, WaitSide side,
                                             int64_t waited_ns) {
  using Word = unsigned long long;
  PeerWait& sum = shared.waits[peer];
  atomicAdd(reinterpret_cast<Word*>(side == WaitSide::recv ? &sum.recv_ns : &sum.send_ns),
            Word(waited_ns) * (kWaitParts / gridDim.x));
  atomicAdd(reinterpret_cast<Word*>(&sum.waits), 1ull);
}

static __device__ __noinline__ void note_wait(const DeviceShared& shared, const Reporter& by,
                                              const WaitFor& what, uint64_t seen,
                                              int64_t since_ns) {
  if (shared.notes == nullptr || by.channel >= kMaxChannels) return;
  WaitNote& note = shared.notes[by.channel];
  describe(note.wait, by, what, seen);
  note.since_ns = since_ns;
  store_volatile(reinterpret_cast<uint64_t*>(&note.stamp_ns), uint64_t(clock_ns()));
}

// For a thread that waits since `start`, `patience` ns at most: true when it must stop, and its
// block with it. One that `notes` says otherwise that it waits. `failed` and `reported` are the
// block's.
static __device__ __forceinline__ bool wait_must_abort(const DeviceShared& shared,
                                                       const Reporter& by, uint32_t& failed,
                                                       uint32_t& reported, const WaitFor& what,
                                                       uint64_t seen, int64_t start,
                                                       int64_t patience, bool notes) {
  if (load_acquire_block(&failed) != 0) return true;
  const bool aborted = load_volatile(shared.abort_word) != 0;
  if (!aborted && clock_ns() - start <= patience) {
    if (notes) note_wait(shared, by, what, seen, start);
    return false;
  }
  write_report(shared, reported, by, aborted ? ReportCode::aborted : ReportCode::timeout, what,
               seen);
  if (!aborted) store_volatile(shared.abort_word, 1);
  store_release_block(&failed, 1);
  return true;
}

}  // namespace collctl::kernels::cuda
