// What the waits of kernels leave behind for the host (contract/waits.h): a note at every rare look
// of a long one, and, where somebody wants to know, the time of all by peer. One thread of those of
// a block that wait for the same counts. All out of line: what does not wait stays short.
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
            Word(waited_ns));
  atomicAdd(reinterpret_cast<Word*>(&sum.waits), 1ull);
  atomicMax(shared.waiting_blocks, uint32_t(blockIdx.x) + 1);
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

}  // namespace collctl::kernels::cuda
