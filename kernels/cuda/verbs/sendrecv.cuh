// Messages over fifos (sendrecv_call.h): slices as the verbs cut them, so either end may be theirs.
//
// A block has a side that sends and one that receives. The last of each side's warps keeps the
// counters: the others report in shared memory how many slices they have moved, and run ahead as
// far as slots are free. So only the publisher waits for a fence. The two sides go through the
// rounds each at its own pace: a rank's receives never wait for its sends, hence in the earliest
// unfinished round of all ranks both ends of a message are there.
#pragma once
#include "kernels/cuda/overlap.cuh"
#include "kernels/cuda/verbs/ll.cuh"
#include "kernels/cuda/verbs/ll128.cuh"
#include "kernels/cuda/verbs/sendrecv_side.cuh"
#include "kernels/cuda/verbs/simple_loops.cuh"

namespace collctl::kernels::cuda {

// How the warps of a side move a slice. put: false never; take: false: aborted.
template <Protocol kProtocol>
struct PairMover;

template <>
struct PairMover<Protocol::simple> {
  static constexpr bool kByTail = true;
  static __device__ uint32_t wire_bytes(uint64_t bytes) { return uint32_t(bytes); }
  static __device__ void move(const PairSide& side, const uint8_t* from, uint8_t* to,
                              uint64_t bytes) {
    copy_loop({.first = from,
               .others = nullptr,
               .other_count = 0,
               .kept = to,
               .targets = nullptr,
               .target_count = 0,
               .bytes = bytes,
               .index = side.index(),
               .count = side.count(),
               .finish = {}});
  }
  static __device__ void put(const PairSide& side, const PairEnd& end, const uint8_t* from,
                             uint64_t bytes) {
    move(side, from, end.place(), bytes);
  }
  static __device__ bool take(PairSide& side, const PairEnd& end, uint8_t* to, uint64_t bytes) {
    move(side, end.place(), to, bytes);
    return true;
  }
};

template <>
struct PairMover<Protocol::ll> {
  static constexpr bool kByTail = false;
  static __device__ uint32_t wire_bytes(uint64_t bytes) { return LlLines::wire_bytes(bytes); }
  static __device__ __forceinline__ WordPlaces places(uint64_t bytes, uint32_t l, uint32_t step) {
    return {bytes, uint64_t(l) * 8, step * 8, 1};
  }
  static __device__ __forceinline__ void put(const PairSide& side, const PairEnd& end,
                                             const uint8_t* from, uint64_t bytes) {
    const uint32_t lines = uint32_t((bytes + 7) / 8), step = side.count();
    const uint32_t flag = uint32_t(end.step + 1);
#pragma unroll 1
    for (uint32_t l = side.index(); l < lines; l += LlLines::kUnroll * step) {
      uint64_t data[LlLines::kUnroll];
      load_words<1>(from, places(bytes, l, step), data);
      LlLines::write_slot(end.place(), flag, l, step, lines, data);
    }
    if (ll_writes_whole_slot(end.step, end.slot_count))
      LlLines::fill_slot(end.place(), end.slot_bytes, flag, lines + side.index(), step);
  }
  static __device__ __forceinline__ bool take(PairSide& side, const PairEnd& end, uint8_t* to,
                                              uint64_t bytes) {
    const uint32_t lines = uint32_t((bytes + 7) / 8), step = side.count();
    const uint32_t flag = uint32_t(end.step + 1);
#pragma unroll 1
    for (uint32_t l = side.index(); l < lines; l += LlLines::kUnroll * step) {
      uint64_t data[LlLines::kUnroll];
      if (!LlLines::read_slot(end.place(), flag, l, step, lines, data, PairWait{side, end, flag}))
        return false;
      store_words<1>(to, places(bytes, l, step), data);
    }
    return true;
  }
};

template <>
struct PairMover<Protocol::ll128> {
  static constexpr bool kByTail = false;
  using Lines = Ll128Lines;
  static __device__ uint32_t wire_bytes(uint64_t bytes) { return Lines::wire_bytes(bytes); }
  static __device__ __forceinline__ void put(const PairSide& side, const PairEnd& end,
                                             const uint8_t* from, uint64_t bytes) {
    const uint32_t lines = Lines::lines_of(bytes);
#pragma unroll 1
    for (uint32_t base = side.warp * Lines::kLinesOfWarp; base < lines;
         base += side.warps * Lines::kLinesOfWarp) {
      const Lines::Part part(base);
      Lines::Words data;
      load_words<2>(from, Lines::places(bytes, part), data);
      __syncwarp();
      Lines::write_slot(end.place(), end.step + 1, part, lines, data);
    }
  }
  static __device__ __forceinline__ bool take(PairSide& side, const PairEnd& end, uint8_t* to,
                                              uint64_t bytes) {
    const uint32_t lines = Lines::lines_of(bytes);
    const uint64_t flag = end.step + 1;
#pragma unroll 1
    for (uint32_t base = side.warp * Lines::kLinesOfWarp; base < lines;
         base += side.warps * Lines::kLinesOfWarp) {
      const Lines::Part part(base);
      Lines::Words data;
      if (!Lines::read_slot(end.place(), flag, part, lines, data, PairWait{side, end, flag}))
        return false;
      store_words<2>(to, Lines::places(bytes, part), data);
      __syncwarp();
    }
    return true;
  }
};

template <Protocol kProtocol>
__device__ __forceinline__ void send_slices(PairSide& side, PairEnd& end, const uint8_t* from,
                                            uint64_t bytes) {
  side.slices(end, bytes, [&](uint64_t at, uint64_t n) {
    // Free when head + slot_count > step.
    if (end.step >= end.slot_count && !side.wait_above(end, end.step - end.slot_count))
      return false;
    PairMover<kProtocol>::put(side, end, from + at, n);
    side.moved();
    end.advance();
    return true;
  });
}
template <Protocol kProtocol>
__device__ __forceinline__ void receive_slices(PairSide& side, PairEnd& end, uint8_t* to,
                                               uint64_t bytes) {
  side.slices(end, bytes, [&](uint64_t at, uint64_t n) {
    if (PairMover<kProtocol>::kByTail && !side.wait_above(end, end.step)) return false;
    if (__any_sync(kAllLanes, !PairMover<kProtocol>::take(side, end, to + at, n))) return false;
    side.moved();
    end.advance();
    return true;
  });
}

// The warp that keeps the counters, behind those that move.
template <Protocol kProtocol>
__device__ __forceinline__ void keep_counters(PairSide& side, PairEnd& end, uint64_t bytes) {
  const bool announces = !side.receives && (PairMover<kProtocol>::kByTail || end.proxied());
  side.slices(end, bytes, [&](uint64_t, uint64_t n) {
    if (!side.all_moved()) return false;
    if (side.lane == 0 && announces) {
      // A proxy wants to know how much is in the slot.
      const uint32_t wire_bytes = PairMover<kProtocol>::wire_bytes(n);
      if constexpr (kProtocol == Protocol::ll) {
        announce_lines(
            end.fifo->records[end.slot], end.step,
            ll_writes_whole_slot(end.step, end.slot_count) ? end.slot_bytes : wire_bytes);
      } else {
        if (end.proxied() && end.fifo->records != nullptr)
          store_volatile(&end.fifo->records[end.slot].bytes, wire_bytes);
        fence_system();
      }
    }
    // Data loaded from a slot has been used, so no load can follow the head.
    if (side.lane == 0 && (announces || side.receives)) store_volatile(end.post, end.step + 1);
    end.advance();
    return true;
  });
  if (side.lane == 0) end.fifo->step = end.step;  // all have loaded it
}

// One message. `fifo` null: no link was made, a planner's bug.
template <Protocol kProtocol>
__device__ __forceinline__ void run_message(PairSide& side, Fifo* fifo, const PairStep& step) {
  const uint64_t bytes =
      (side.receives ? step.recv_count : step.send_count) * side.head.element_bytes;
  const int32_t peer = side.receives ? step.recv_peer : step.send_peer;
  if (bytes == 0 || peer < 0) return;
  if (fifo == nullptr) {
    const ChannelLinks& links = side.head.shared.links[side.mine.channel];
    fifo = (side.receives ? links.recv : links.send)[peer * kProtocolCount + int(kProtocol)];
  }
  if (fifo == nullptr) {
    if (side.lane == 0) report_pair(side.where(), ReportCode::bad_data, peer, 0, 0, 0);
    side.fail();
    return;
  }
  PairEnd end(fifo, side.receives);
  if (side.keeps_counters())
    keep_counters<kProtocol>(side, end, bytes);
  else if (side.receives)
    receive_slices<kProtocol>(side, end, static_cast<uint8_t*>(step.recv), bytes);
  else
    send_slices<kProtocol>(side, end, static_cast<const uint8_t*>(step.send), bytes);
}

// To itself: the sides copy half each.
__device__ __forceinline__ void run_own(const PairSide& side, const PairStep& step) {
  const uint64_t bytes = step.send_count * side.head.element_bytes;
  if (side.keeps_counters() || bytes == 0 || step.send == step.recv) return;
  const uint64_t half = (bytes / 2 + 15) / 16 * 16, begin = side.receives ? half : 0;
  if (begin < bytes)
    PairMover<Protocol::simple>::move(side, static_cast<const uint8_t*>(step.send) + begin,
                                      static_cast<uint8_t*>(step.recv) + begin,
                                      side.receives  ? bytes - half
                                      : half < bytes ? half
                                                     : bytes);
}

template <Protocol kProtocol>
__device__ __forceinline__ void run_sendrecv(const SendRecvHead& head, const SendRecvBlock& mine,
                                             PairShared& block) {
  for (int i = int(threadIdx.x); i < int(sizeof(PairShared) / sizeof(uint32_t)); i += kWarp)
    if (threadIdx.x < kWarp) reinterpret_cast<uint32_t*>(&block)[i] = 0;
  __syncthreads();
  int warp = int(threadIdx.x) / kWarp;
  const int senders = head.send_warps > 0 ? head.send_warps + 1 : 0;
  const bool receives = head.apart ? blockIdx.x % 2 == 1 : warp >= senders;
  if (receives && !head.apart) warp -= senders;
  PairSide side(head, mine, kProtocol, block, receives, warp);
  if (side.warps == 0 || warp > side.warps) return;
#pragma unroll 1
  for (uint32_t k = 0; k < mine.step_count; ++k) {
    const PairStep step = mine.has_only ? mine.only : mine.steps[k];
    Fifo* const known = !mine.has_only ? nullptr : receives ? mine.recv : mine.send;
    if (step.send_peer == mine.rank && step.recv_peer == mine.rank)
      run_own(side, step);
    else
      run_message<kProtocol>(side, known, step);
    // The next message of the fifo begins where this one ended.
    if (k + 1 < mine.step_count && side.barrier()) return;
  }
}

template <Protocol kProtocol>
__global__ void __launch_bounds__(kMostPairThreads, 1)
    sendrecv_kernel(const __grid_constant__ SendRecvCall call) {
  COLL_BLOCK_SHARED(PairShared, block);
  begin_launch();
  run_sendrecv<kProtocol>(call.head, call.blocks[call.head.apart ? blockIdx.x / 2 : blockIdx.x],
                          block);
}

}  // namespace collctl::kernels::cuda
