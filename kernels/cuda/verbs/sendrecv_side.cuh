// One side of a block of the kernel of messages (sendrecv.cuh): the end of the fifo it has open,
// how its warps wait, abort together and show each other how far they are.
#pragma once
#include "kernels/algo/ids.h"
#include "kernels/chunk.h"
#include "kernels/cuda/verbs/sendrecv_call.h"
#include "kernels/cuda/waits.cuh"
#include "kernels/slices.h"

namespace collctl::kernels::cuda {

struct PairShared {
  uint32_t moved[2][kMostPairWarps];  // slices, by side and warp
  uint32_t failed;
  uint32_t reported;
};

// One end of a fifo in a thread's registers.
struct PairEnd {
  Fifo* fifo;
  uint8_t* slots;
  const uint64_t* counter;  // the other side's
  uint64_t* post;           // this side's
  uint64_t step, seen = 0;
  uint32_t slot, slot_bytes, slot_count;
  int32_t peer;
  uint8_t flags;

  __device__ PairEnd(Fifo* f, bool receives)
      : fifo(f),
        slots(f->slots),
        counter(receives ? f->tail : f->head),
        post(receives ? f->head : f->tail),
        step(f->step),
        slot_bytes(f->slot_bytes),
        slot_count(f->slot_count),
        peer(f->peer),
        flags(f->flags) {
    const bool power = (slot_count & (slot_count - 1)) == 0;  // a division takes long
    slot = uint32_t(power ? step & (slot_count - 1) : step % slot_count);
  }
  __device__ uint8_t* place() const { return slots + uint64_t(slot) * slot_bytes; }
  __device__ bool proxied() const { return (flags & kFifoProxyReads) != 0; }
  __device__ void advance() {
    ++step;
    if (++slot == slot_count) slot = 0;
  }
};

// Out of line, by values: what waits should stay in registers.
struct PairWhere {
  const SendRecvHead* head;
  const SendRecvBlock* mine;
  PairShared* block;
  Protocol protocol;
  WaitSide side;
};
static __device__ Reporter pair_reporter(PairWhere at) {
  return {at.head->op_count, at.mine->rank,         at.mine->channel,
          at.protocol,       AlgorithmId::pairwise, at.head->collective};
}
static __device__ __noinline__ void report_pair(PairWhere at, ReportCode code, int32_t peer,
                                                uint64_t step, uint64_t seen, uint64_t wanted) {
  write_report(at.head->shared, at.block->reported, pair_reporter(at), code,
               {peer, at.side, step, wanted}, seen);
}
static __device__ __noinline__ bool pair_must_abort(PairWhere at, int32_t peer, uint64_t step,
                                                    uint64_t seen, uint64_t wanted, int64_t start,
                                                    bool notes) {
  const DeviceShared& shared = at.head->shared;
  // A channel has one report: of two blocks that wait for the same rank, the one that receives is
  // to write it.
  const bool second = at.head->apart && at.side == WaitSide::send;
  const int64_t patience = shared.timeout_ns + (second ? shared.timeout_ns / 2 : 0);
  return wait_must_abort(shared, pair_reporter(at), at.block->failed, at.block->reported,
                         {peer, at.side, step, wanted}, seen, start, patience, notes);
}
// Most chunks are one slice: divisions.
static __device__ __noinline__ uint64_t pair_slice_bytes(uint64_t chunk, uint32_t element,
                                                         uint64_t room) {
  return cut_into_slices(chunk / element, element, room).elements_each * element;
}

// A warp's view of its side of the block.
class PairSide {
 public:
  const SendRecvHead& head;
  const SendRecvBlock& mine;
  const Protocol protocol;
  const bool receives;
  const int warps, warp, lane;  // `warps` move data, the one behind keeps the counters

  __device__ PairSide(const SendRecvHead& h, const SendRecvBlock& b, Protocol p, PairShared& block,
                      bool receiver, int warp_of_side)
      : head(h),
        mine(b),
        protocol(p),
        receives(receiver),
        warps(receiver ? h.recv_warps : h.send_warps),
        warp(warp_of_side),
        lane(int(threadIdx.x) % kWarp),
        block_(block) {}

  __device__ bool keeps_counters() const { return warp == warps; }
  __device__ int index() const { return warp * kWarp + lane; }  // of those that move
  __device__ int count() const { return warps * kWarp; }

  // From any thread: the block aborts. All waits look at it.
  __device__ void fail() { store_release_block(&block_.failed, 1); }
  __device__ bool failed() const { return load_acquire_block(&block_.failed) != 0; }
  // The same in all threads of the side, which all call it. One lane looks: it takes an atomic.
  __device__ bool barrier() {
    return barrier_any(1 + int(receives), (warps + 1) * kWarp, lane == 0 && failed());
  }
  __device__ __forceinline__ PairWhere where() const {
    return {&head, &mine, &block_, protocol, receives ? WaitSide::recv : WaitSide::send};
  }
  __device__ __forceinline__ bool must_abort(const PairEnd& end, uint64_t seen, uint64_t wanted,
                                             int64_t start) const {
    return pair_must_abort(where(), end.peer, end.step, seen, wanted, start, warp == 0);
  }

  __device__ bool counts_waits() const { return head.shared.waits != nullptr && warp == 0; }
  // Counts the waits of warp 0.
  __device__ void waited(const PairEnd& end, int64_t start) const {
    if (counts_waits() && lane == 0)
      add_wait(head.shared, end.peer, where().side, clock_ns() - start);
  }

  // A warp that moves, together: until *end.counter > above. False: aborted.
  __device__ __forceinline__ bool wait_above(PairEnd& end, uint64_t above) {
    if (end.seen > above) return true;
    bool aborts = false;
    if (lane == 0) {
      int64_t start = 0;
#pragma unroll 1
      for (int polls = 1; (end.seen = load_acquire(end.counter)) <= above; ++polls) {
        if (polls % kPollsBetweenLooks != 0 && (start != 0 || !counts_waits())) continue;
        if (start == 0) {
          start = clock_ns();
        } else if (must_abort(end, end.seen, above + 1, start)) {
          aborts = true;
          break;
        }
      }
      if (start != 0) waited(end, start);
    }
    end.seen = __shfl_sync(kAllLanes, end.seen, 0);
    return !__any_sync(kAllLanes, aborts);
  }

  // A warp that moves: its part of the slice is in place, or has been used.
  __device__ void moved() {
    ++slices_;
    __syncwarp();
    if (lane != 0) return;
    store_release_block(&block_.moved[receives][warp], slices_);
  }
  // The warp that keeps the counters: all have moved one slice more. False: aborted.
  __device__ bool all_moved() {
    ++slices_;
#pragma unroll 1
    for (int polls = 1;; ++polls) {
      const bool here = lane >= warps ||
                        int32_t(load_acquire_block(&block_.moved[receives][lane]) - slices_) >= 0;
      if (__all_sync(kAllLanes, here)) break;
      if (polls % kPollsBetweenLooks == 0 && __any_sync(kAllLanes, lane == 0 && failed()))
        return false;
    }
    __syncwarp();
    return true;
  }

  // The slices of a message of `bytes`: step(offset, bytes of it) until one is false.
  template <class Step>
  __device__ __forceinline__ void slices(const PairEnd& end, uint64_t bytes, Step step) const {
    const uint64_t room = slot_data_bytes(end.slot_bytes, protocol);
#pragma unroll 1
    for (uint64_t at = 0; at < bytes;) {
      const uint64_t rest = bytes - at;
      const uint64_t chunk_end = at + (rest < head.chunk_bytes ? rest : head.chunk_bytes);
      const uint64_t each = chunk_end - at <= room
                                ? chunk_end - at
                                : pair_slice_bytes(chunk_end - at, head.element_bytes, room);
#pragma unroll 1
      while (at < chunk_end) {
        const uint64_t n = chunk_end - at < each ? chunk_end - at : each;
        if (!step(at, n)) return;
        at += n;
      }
    }
  }

 private:
  PairShared& block_;
  uint32_t slices_ = 0;
};

// The wait for lines of a message, as read_slot asks (line_slices.cuh).
struct PairWait {
  const PairSide& side;
  const PairEnd& end;
  const uint64_t wanted;
  __device__ bool counts() const { return side.counts_waits(); }
  __device__ bool must_abort(uint64_t seen, int64_t start) const {
    return side.must_abort(end, seen, wanted, start);
  }
  __device__ void over(int64_t start) const { side.waited(end, start); }
};

}  // namespace collctl::kernels::cuda
