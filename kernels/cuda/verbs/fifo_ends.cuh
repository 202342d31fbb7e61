// The fifos a block has open. Each is looked after by one thread, which keeps its step and the
// counter it last saw in registers: thread e of the team by waiting, and with a poster also lane e
// of the last warp by publishing. Receive ends come first.
// Ownership: fifos are the link's; `step` is loaded when a block opens and stored when it closes.
#pragma once
#include "kernels/block.h"
#include "kernels/cuda/team.cuh"
#include "kernels/slices.h"

namespace collctl::kernels::cuda {

// For a proxy that looks for the flags: how many bytes of lines there are, and theirs.
__device__ __forceinline__ void announce_lines(SlotRecord& record, uint64_t step,
                                               uint32_t wire_bytes) {
  store_volatile(reinterpret_cast<uint64_t*>(&record),
                 uint64_t(uint32_t(step + 1)) << 32 | wire_bytes);
}

// The memory that a verb reads and writes besides slots. With `receive` and `in` it reduces.
struct Motion {
  const uint8_t* in = nullptr;
  uint8_t* out = nullptr;
  uint32_t divisor = 1;
  bool receive = false;
  bool send = false;
};

class FifoEnds {
 public:
  // Out of line, as all that every algorithm calls: compile time and size.
  __device__ __noinline__ void open(Team& team, const BlockSpec& spec, Protocol protocol) {
    protocol_ = protocol;
    const ChannelLinks& links = team.links();
    const int mine = team.is_poster() ? team.index - team.movers : team.index;
    for (int i = 0; i < kMaxFanIn; ++i)
      if (spec.recv[i] >= 0 && in_count++ == mine) take(team, links.recv, spec.recv[i], true);
    for (int i = 0; i < kMaxFanOut; ++i)
      if (spec.send[i] >= 0 && in_count + out_count++ == mine)
        take(team, links.send, spec.send[i], false);
    if (mine == 0 && fifo_ != nullptr) team.scratch.slot_bytes = slot_bytes_;
    team.sync();
    slot_data_bytes = in_count + out_count > 0 ? slot_data_bytes_of(team) : 0;
  }
  __device__ __noinline__ void close(Team& team) {
    if (fifo_ != nullptr && !team.is_poster()) {
      fifo_->step = step_;
      fifo_->seen = seen_;
    }
    team.sync();  // whoever opens it next reads that
  }

  int in_count = 0, out_count = 0;
  uint64_t slot_data_bytes = 0;  // 0 without fifos

  // Whether this thread's end takes part in the motion.
  __device__ bool receives(const Motion& m) const {
    return fifo_ != nullptr && is_receive_ && m.receive;
  }
  __device__ bool sends(const Motion& m) const {
    return fifo_ != nullptr && !is_receive_ && m.send;
  }

  // --- By the waiting thread

  // Waits for the step's data (only where the tail announces it) and shows the team where it is.
  __device__ void offer_source(Team& team, bool by_tail) {
    if (by_tail)
      team.wait_above(counter_, step_, seen_, {fifo_->peer, WaitSide::recv, step_, step_ + 1});
    const uint32_t side = team.next_side();
    team.scratch.source[side][number_] = slot();
    team.scratch.source_step[side][number_] = step_;
    team.scratch.source_peer[side][number_] = fifo_->peer;
  }
  // Waits until the step's slot is free and shows the team where it is.
  __device__ void offer_target(Team& team) {
    // Free when head + slot_count > step.
    if (step_ >= slot_count_)
      team.wait_above(counter_, step_ - slot_count_, seen_,
                      {fifo_->peer, WaitSide::send, step_, step_ + 1 - slot_count_});
    const uint32_t side = team.next_side();
    team.scratch.target[side][number_] = slot();
    team.scratch.target_step[side][number_] = step_;
    team.scratch.target_fill[side][number_] = fills_slot() ? slot_bytes_ : 0;
  }
  __device__ void advance() {
    ++step_;
    if (++slot_ == slot_count_) slot_ = 0;
  }

  // --- By the publishing thread, after a barrier behind the moves; both advance

  // A proxy wants to know how much is in the slot. Before the fence.
  __device__ void record(uint32_t wire_bytes) {
    if (flags_tell()) return announce_lines(fifo_->records[slot_], step_, wire_bytes);
    if ((flags_ & kFifoProxyReads) != 0 && fifo_->records != nullptr)
      store_volatile(&fifo_->records[slot_].bytes, wire_bytes);
    if (reduction_ != 0) store_volatile(&fifo_->records[slot_].mark, reduction_);
  }
  // After the fence, which orders the data before the tail, or the flags show.
  __device__ void publish() {
    if (protocol_ == Protocol::simple || (flags_ & kFifoProxyReads) != 0)
      store_volatile(post_, step_ + 1);
    advance();
  }
  // All that was loaded from the slot has been used, so no load can follow this store.
  __device__ void release() {
    store_volatile(post_, step_ + 1);
    advance();
  }
  __device__ bool proxied() const { return (flags_ & kFifoProxyReads) != 0; }
  // To a proxy, in whatever order things come.
  __device__ bool flags_tell() const {
    return protocol_ == Protocol::ll && proxied() && reduction_ == 0;
  }
  // Whether this step's slice writes all of its slot, whatever it needs.
  __device__ bool fills_slot() const {
    return protocol_ == Protocol::ll && ll_writes_whole_slot(step_, slot_count_);
  }
  __device__ uint32_t slot_bytes() const { return slot_bytes_; }

 private:
  __device__ uint8_t* slot() const { return slots_ + uint64_t(slot_) * slot_bytes_; }
  __device__ uint64_t slot_data_bytes_of(const Team& team) const {
    const volatile uint32_t& bytes = team.scratch.slot_bytes;
    return kernels::slot_data_bytes(bytes, protocol_);
  }
  __device__ void take(Team& team, Fifo* const* table, int peer, bool is_receive) {
    Fifo* fifo = table[peer * kProtocolCount + int(protocol_)];
    if (fifo == nullptr) {  // a planner's bug: no link was made
      team.report(ReportCode::bad_data, {peer, is_receive ? WaitSide::recv : WaitSide::send, 0, 0},
                  0);
      team.fail();
      return;
    }
    fifo_ = fifo;
    is_receive_ = is_receive;
    number_ = is_receive ? in_count - 1 : out_count - 1;
    step_ = fifo->step;
    seen_ = fifo->seen;
    slots_ = fifo->slots;
    slot_bytes_ = fifo->slot_bytes;
    slot_count_ = fifo->slot_count;
    slot_ = uint32_t(step_ % slot_count_);
    flags_ = fifo->flags;
    if ((flags_ & kFifoReduces) != 0) reduction_ = reduction_code(team.work().type, team.work().op);
    counter_ = is_receive ? fifo->tail : fifo->head;
    post_ = is_receive ? fifo->head : fifo->tail;
  }

  Fifo* fifo_ = nullptr;
  uint8_t* slots_ = nullptr;
  const uint64_t* counter_ = nullptr;  // the other side's
  uint64_t* post_ = nullptr;           // this side's
  uint64_t step_ = 0, seen_ = 0;
  uint32_t slot_ = 0, slot_bytes_ = 0, slot_count_ = 1;
  uint32_t reduction_ = 0;  // to be recorded; 0: not
  int number_ = 0;
  Protocol protocol_ = Protocol::simple;
  uint8_t flags_ = 0;
  bool is_receive_ = false;
};

}  // namespace collctl::kernels::cuda
