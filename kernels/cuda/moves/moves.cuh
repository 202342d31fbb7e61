// The kernel of moves (call.h). All threads of a block move; behind every move they meet, and the
// first thread tells what was written and read. Fifos are opened all at once at the start and
// closed at the end. By LL each thread looks for the flags of its own lines; by Simple the first
// waits for the tails, and fences before it tells.
#pragma once
#include "kernels/cuda/moves/call.h"
#include "kernels/cuda/moves/packs.cuh"
#include "kernels/cuda/overlap.cuh"
#include "kernels/cuda/verbs/ll.cuh"
#include "kernels/cuda/waits.cuh"

namespace collctl::kernels::cuda {

inline constexpr int kMostMoveThreads = 512;
// A line or two a thread: there are as many threads as lines, up to that.
using MoveLines = LlLinesOf<2>;

// A fifo as the block has it open; steps as it was opened.
struct OpenFifo {
  uint8_t* slots;
  const uint64_t* counter;  // the other side's
  uint64_t* post;           // this side's
  SlotRecord* records;
  uint64_t step, seen;
  uint32_t slot, slot_bytes, slot_count;
  int32_t peer;
  uint8_t flags;

  __device__ void open(const Fifo& f, bool receives) {
    slots = f.slots;
    counter = receives ? f.tail : f.head;
    post = receives ? f.head : f.tail;
    records = f.records;
    step = f.step;
    seen = f.seen;
    slot_bytes = f.slot_bytes;
    slot_count = f.slot_count;
    peer = f.peer;
    flags = f.flags;
    const bool power = (slot_count & (slot_count - 1)) == 0;  // a division takes long
    slot = uint32_t(power ? step & (slot_count - 1) : step % slot_count);
  }
  __device__ uint32_t slot_of(MoveEnd end) const {
    uint32_t at = slot + end.later;
    while (at >= slot_count) at -= slot_count;
    return at;
  }
  __device__ uint8_t* place(MoveEnd end) const {
    return slots + uint64_t(slot_of(end)) * slot_bytes;
  }
  __device__ bool has_data(MoveEnd end) const { return seen > step + end.later; }
  // Free when head + slot_count > step.
  __device__ bool has_room(MoveEnd end) const {
    return step + end.later < slot_count || seen > step + end.later - slot_count;
  }
};

struct MovesShared {
  OpenFifo fifos[kMostFifosOfBlock];
  Move moves[kMostMovesOfBlock];
  uint32_t failed;
  uint32_t reported;
};

struct MovesWhere {
  const MovesHead* head;
  const MovesBlock* mine;
  MovesShared* block;
};
static __device__ Reporter moves_reporter(MovesWhere at) {
  return {at.head->op_count, at.mine->rank,      at.mine->channel,
          at.head->protocol, at.head->algorithm, at.head->collective};
}
static __device__ __noinline__ bool moves_must_abort(MovesWhere at, WaitFor what, uint64_t seen,
                                                     int64_t start, bool notes) {
  const DeviceShared& shared = at.head->shared;
  return wait_must_abort(shared, moves_reporter(at), at.block->failed, at.block->reported, what,
                         seen, start, shared.timeout_ns, notes);
}

// One move, as MoveLines and MovePacks ask.
struct MoveArguments {
  MovesWhere where;
  const Move* move;
  const uint8_t* in;
  uint8_t* out;
  int in_count, out_count;
  int index, count;
  uint64_t bytes;
  Finish finish;
  bool* stopped;  // this thread's

  __device__ const OpenFifo& from(int i) const { return where.block->fifos[move->recv[i].fifo]; }
  __device__ const OpenFifo& to(int t) const { return where.block->fifos[move->send[t].fifo]; }
  __device__ const uint8_t* source(int i) const { return from(i).place(move->recv[i]); }
  __device__ uint64_t source_step(int i) const { return from(i).step + move->recv[i].later; }
  __device__ uint8_t* target(int t) const { return to(t).place(move->send[t]); }
  __device__ uint64_t target_step(int t) const { return to(t).step + move->send[t].later; }
  __device__ bool fills(int t) const {
    return ll_writes_whole_slot(target_step(t), to(t).slot_count);
  }
  __device__ uint32_t target_fill(int t) const { return fills(t) ? to(t).slot_bytes : 0; }

  __device__ SlotRecord& record(int t) const { return to(t).records[to(t).slot_of(move->send[t])]; }

  // The wait for lines of source i.
  struct Wait {
    const MoveArguments& a;
    const int i;
    const uint64_t wanted;
    __device__ WaitFor what() const {
      return {a.from(i).peer, WaitSide::recv, a.source_step(i), wanted};
    }
    __device__ bool counts() const {
      return a.where.head->shared.waits != nullptr && a.index < kWarp;
    }
    __device__ bool must_abort(uint64_t seen, int64_t start) const {
      if (!moves_must_abort(a.where, what(), seen, start, a.index < kWarp)) return false;
      *a.stopped = true;
      return true;
    }
    __device__ void over(int64_t start) const {
      if (a.index == 0)
        add_wait(a.where.head->shared, what().peer, WaitSide::recv, clock_ns() - start);
    }
  };
  __device__ Wait wait(int i, uint64_t wanted) const { return {*this, i, wanted}; }
};

// One thread: until fifo.counter is above. False: aborted.
static __device__ __noinline__ bool await_counter(MovesWhere at, OpenFifo& fifo, WaitSide side,
                                                  uint64_t step, uint64_t above) {
  const bool counts = at.head->shared.waits != nullptr;
  int64_t start = 0;
#pragma unroll 1
  for (int polls = 1; (fifo.seen = load_acquire(fifo.counter)) <= above; ++polls) {
    if (polls % kPollsBetweenLooks != 0 && (start != 0 || !counts)) continue;
    if (start == 0)
      start = clock_ns();
    else if (moves_must_abort(at, {fifo.peer, side, step, above + 1}, fifo.seen, start, true))
      return false;
  }
  if (start != 0 && counts) add_wait(at.head->shared, fifo.peer, side, clock_ns() - start);
  return true;
}
// Until all that the move reads has come (recv), or all slots that it writes are free.
static __device__ __noinline__ bool await_all(MovesWhere at, const Move& move, WaitSide side) {
  const bool receives = side == WaitSide::recv;
  const MoveEnd* const ends = receives ? move.recv : move.send;
  const int count = receives ? move.in_count : move.out_count;
#pragma unroll 1
  for (int i = 0; i < count; ++i) {
    OpenFifo& fifo = at.block->fifos[ends[i].fifo];
    if (receives ? fifo.has_data(ends[i]) : fifo.has_room(ends[i])) continue;
    const uint64_t step = fifo.step + ends[i].later;
    if (!await_counter(at, fifo, side, step, receives ? step : step - fifo.slot_count))
      return false;
  }
  return true;
}

// All threads. False: aborted.
template <Protocol kProtocol>
__device__ __forceinline__ bool await_slots(MovesWhere at, const Move& move) {
  const bool first = threadIdx.x == 0;
  if constexpr (kProtocol == Protocol::simple) {
    const bool aborted =
        first && !(await_all(at, move, WaitSide::send) && await_all(at, move, WaitSide::recv));
    return !barrier_any(1, int(blockDim.x), aborted);
  }
  bool room = true;
#pragma unroll 1
  for (int t = 0; t < move.out_count; ++t)
    room &= at.block->fifos[move.send[t].fifo].has_room(move.send[t]);
  if (room) return true;
  __syncthreads();  // all have looked
  return !barrier_any(1, int(blockDim.x), first && !await_all(at, move, WaitSide::send));
}

// One thread, behind the meeting of all: the slots are written, and those that were read are free.
template <Protocol kProtocol>
__device__ __forceinline__ void tell(const MoveArguments& a) {
  constexpr bool kLines = kProtocol == Protocol::ll;
  if (!kLines && a.out_count > 0) {
#pragma unroll 1
    for (int t = 0; t < a.out_count; ++t) {
      const uint8_t flags = a.to(t).flags;
      if ((flags & kFifoProxyReads) != 0) store_volatile(&a.record(t).bytes, uint32_t(a.bytes));
      if ((flags & kFifoReduces) != 0)
        store_volatile(&a.record(t).mark, reduction_code(a.where.head->type, a.where.head->op));
    }
    fence_system();
  }
#pragma unroll 1
  for (int t = 0; t < a.out_count; ++t) {
    const OpenFifo& fifo = a.to(t);
    const uint64_t step = a.target_step(t);
    if (kLines && (fifo.flags & kFifoProxyReads) == 0) continue;
    // In any order: the proxy looks for the record's flag and the lines'.
    if (kLines)
      announce_lines(a.record(t), step,
                     a.fills(t) ? fifo.slot_bytes : MoveLines::wire_bytes(a.bytes));
    store_volatile(fifo.post, step + 1);
  }
#pragma unroll 1
  for (int i = 0; i < a.in_count; ++i) store_volatile(a.from(i).post, a.source_step(i) + 1);
}

template <Protocol kProtocol>
__global__ void __launch_bounds__(kMostMoveThreads, 1)
    moves_kernel(const __grid_constant__ MovesCall call) {
  COLL_BLOCK_SHARED(MovesShared, block);
  const MovesBlock& mine = call.blocks[blockIdx.x];
  const int thread = int(threadIdx.x), threads = int(blockDim.x);
  const MovesWhere where{&call.head, &mine, &block};
  begin_launch([&] {
    constexpr int kWords = sizeof(Move) / sizeof(uint64_t);
    const auto* const from = reinterpret_cast<const uint64_t*>(call.moves + mine.first_move);
    for (int i = thread; i < mine.move_count * kWords; i += threads)
      reinterpret_cast<uint64_t*>(block.moves)[i] = from[i];
    if (thread == 0) block.failed = block.reported = 0;
  });
  const bool opens = thread < mine.fifo_count;
  const MoveFifo& own = call.fifos[mine.first_fifo + (opens ? thread : 0)];
  if (opens) block.fifos[thread].open(*own.fifo, own.receives);
  __syncthreads();

#pragma unroll 1
  for (int k = 0; k < mine.move_count; ++k) {
    const Move& move = block.moves[k];
    if (!await_slots<kProtocol>(where, move)) return;
    bool stopped = false;
    const MoveArguments a{
        .where = where,
        .move = &move,
        .in = move.in,
        .out = move.out,
        .in_count = move.in_count,
        .out_count = move.out_count,
        .index = thread,
        .count = threads,
        .bytes = move.bytes,
        .finish = {move.divides ? call.head.divisor : 1, is_signed_integer(call.head.type)},
        .stopped = &stopped};
    using Mover = std::conditional_t<kProtocol == Protocol::ll, MoveLines, MovePacks>;
    if (a.in != nullptr && (a.in_count > 0 || a.finish.divisor > 1))
      with_type_and_op<Mover::template Reduce>(call.head.type, call.head.op, a);
    else
      Mover::Copy::move(a);
    if (barrier_any(1, threads, stopped)) return;
    if (thread == 0) tell<kProtocol>(a);
  }
  if (!opens) return;
  own.fifo->step = block.fifos[thread].step + own.steps;
  own.fifo->seen = block.fifos[thread].seen;
}

}  // namespace collctl::kernels::cuda
