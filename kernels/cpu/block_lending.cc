// Data that a block moves without a slot: messages that a peer reads out of this process's memory,
// and slices that a proxy sends out of it or receives into it.
#include <cerrno>
#include <cstring>

#include "base/peer_memory.h"
#include "kernels/algo/ids.h"
#include "kernels/cpu/block_cpu.h"

namespace collctl::kernels {

namespace {

// Until it was read; ended by the fifo's head, or aborted.
bool wait_for_lent(CpuWork& work, const LentUntil& lent) {
  uint64_t seen = load_counter(lent.fifo->head);
  if (seen >= lent.head) return true;
  PatientWait wait(work, fifo_wait(*lent.fifo, WaitSide::send, lent.head - 1, &seen, lent.head));
  while ((seen = load_counter(lent.fifo->head)) < lent.head)
    if (!wait.turn()) return false;
  return true;
}

}  // namespace

uint64_t CpuBlock::send_chunk(uint64_t n) {
  const Work& work = work_.work;
  lends_ = send_count_ == 1 && (send_[0].fifo->flags & kFifoLends) != 0 &&
           n * work_.element_bytes >> work.mark != 0;
  return lends_ ? kLentBytes / work_.element_bytes : work.chunk_count;
}

uint64_t CpuBlock::recv_chunk() {
  const Work& work = work_.work;
  borrows_ = recv_count_ == 1 && (recv_[0].fifo->flags & kFifoLends) != 0 &&
             wait_for_data(recv_[0]) &&
             (recorded(recv_[0]).load(std::memory_order_relaxed) & kSlotLends) != 0;
  return borrows_ ? kLentBytes / work_.element_bytes : work.chunk_count;
}

void CpuBlock::lend(const uint8_t* from, uint64_t bytes) {
  if (wait_for_slot(send_[0])) put_lent(send_[0], from, bytes);
}

void CpuBlock::put_lent(FifoEnd& end, const uint8_t* from, uint64_t bytes) {
  const Lent lent{reinterpret_cast<uintptr_t>(from), bytes};
  std::memcpy(end.data(), &lent, sizeof lent);
  std::vector<LentUntil>& all = work_.context.lent;
  if (all.empty() || all.back().fifo != end.fifo) all.push_back({end.fifo, 0});
  all.back().head = end.step + 1;
  publish(end, kSlotLends, true);
}

// Whether what is sent from there is not written again before the peer has it: by these algorithms.
// For doubling see wait_until_sent(); bruck sends what it moves on.
bool CpuBlock::may_lend_slices() const {
  switch (work_.work.algorithm) {
    case AlgorithmId::ring:
    case AlgorithmId::pairwise:
    case AlgorithmId::doubling:
    case AlgorithmId::halving:
    case AlgorithmId::tree:
    case AlgorithmId::rooted_tree:
      return true;
    default:
      return false;
  }
}

// Doubling in place puts the sum where it lies that was lent to this peer.
bool CpuBlock::wait_until_sent() {
  const std::vector<LentUntil>& all = work_.context.lent;
  if (work_.work.algorithm != AlgorithmId::doubling || input_ != output_ || send_count_ != 1 ||
      all.empty() || all.back().fifo != send_[0].fifo)
    return true;
  return wait_for_lent(work_, all.back());
}

bool CpuBlock::lends_slice(const Motion& motion, uint64_t bytes) const {
  return send_count_ == 1 && (send_[0].fifo->flags & kFifoSendsLent) != 0 &&
         bytes >= kLentSliceBytes && may_lend_slices() &&
         (motion.out != nullptr || (!motion.receive && motion.divisor <= 1));
}

bool CpuBlock::borrow(uint8_t* to, uint64_t bytes) {
  FifoEnd& end = recv_[0];
  if (!wait_for_data(end)) return false;
  const uint32_t record = recorded(end).load(std::memory_order_relaxed);
  Lent lent{0, record};
  if ((record & kSlotLends) != 0) std::memcpy(&lent, end.data(), sizeof lent);
  if (lent.bytes != bytes) return wrong_size(end, lent.bytes, bytes);
  const FaultKind fault = due_fault({.receive = true});
  if (work_.failed()) return false;
  const int error = base::read_memory(end.fifo->process, lent.address, to, bytes);
  // Not a load: that could be done before the last bytes were read.
  if (recorded(end).fetch_or(0, std::memory_order_acq_rel) != kSlotLends)
    return unreadable(end, ECANCELED);
  if (error != 0) return unreadable(end, error);
  if (fault != FaultKind::none) {
    const void* received = to;
    void* destination = to;
    combine({.out = to, .receive = true}, &received, 1, &destination, 1, bytes, fault);
  }
  release(end);
  return true;
}

// The two halves of a split tree share a context: neither keeps account there.
bool CpuBlock::has_halves() const {
  return work_.work.algorithm == AlgorithmId::tree_split ||
         work_.work.algorithm == AlgorithmId::collnet;
}

// Whether slices are received as they are. (A fault is put into it on its way out of the slot.)
bool CpuBlock::wants_places(const Motion& motion) const {
  return motion.receive && motion.in == nullptr && motion.out != nullptr && recv_count_ == 1 &&
         (recv_[0].fifo->flags & kFifoPlaces) != 0 && !has_halves() && !work_.fault_armed &&
         work_.context.take_back != nullptr;
}

// The slices of a verb that are not received yet, as many as there are slots.
void CpuBlock::place_slices(uint8_t* to, uint64_t bytes, uint64_t each) {
  FifoEnd& end = recv_[0];
  const Fifo& fifo = *end.fifo;
  for (uint64_t step = end.step; step < end.step + fifo.slot_count && bytes > 0; ++step) {
    const uint64_t piece = bytes < each ? bytes : each;
    if (step >= end.placed && piece >= kLentSliceBytes) {
      Place& place = fifo.places[step % fifo.slot_count];
      place.address = reinterpret_cast<uintptr_t>(to);
      place.bytes = piece;
      std::atomic_ref(place.step).store(step + 1, std::memory_order_release);
      end.placed = step + 1;
      work_.context.placed = true;
    }
    to += piece;
    bytes -= piece;
  }
}

void end_lending(CpuWork& work) {
  std::vector<LentUntil>& all = work.context.lent;
  for (const LentUntil& lent : all) wait_for_lent(work, lent);
  if (work.failed()) {
    // Before the caller may write there again.
    for (const LentUntil& lent : all)
      for (uint64_t step = load_counter(lent.fifo->head); step < lent.head; ++step) {
        uint32_t lends = kSlotLends;
        std::atomic_ref<uint32_t>(lent.fifo->records[step % lent.fifo->slot_count].bytes)
            .compare_exchange_strong(lends, kSlotTakenBack, std::memory_order_seq_cst);
      }
  }
  all.clear();
}

bool CpuBlock::is_placed(const FifoEnd& end) {
  return (end.fifo->flags & kFifoPlaces) != 0 &&
         (recorded(end).load(std::memory_order_relaxed) & kSlotPlaced) != 0;
}

}  // namespace collctl::kernels
