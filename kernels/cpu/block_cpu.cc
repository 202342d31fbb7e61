#include "kernels/cpu/block_cpu.h"

#include <cstring>
#include <utility>

#include "kernels/cpu/fault.h"
#include "kernels/cpu/ll.h"
#include "kernels/cpu/stage_copy.h"

namespace collctl::kernels {
namespace {

// LL goes through the first-level cache in pieces: unpack, reduce, pack.
constexpr uint64_t kPieceBytes = 1024;
// Simple where slots are streamed.
constexpr uint64_t kStreamPieceBytes = 8192;
constexpr uint32_t kTurnsBeforeDoubt = 64;  // of a wait for a line

// LL: what a slice of so many bytes takes of its slot.
uint32_t ll_wire_bytes(const FifoEnd& end, uint64_t bytes) {
  const uint64_t lines = ll_writes_whole_slot(end.step, end.fifo->slot_count)
                             ? end.fifo->slot_bytes / kLineBytes
                             : lines_for(bytes);
  return uint32_t(lines * kLineBytes);
}

}  // namespace

CpuBlock::CpuBlock(CpuWork& work, const BlockSpec& spec)
    : work_(work),
      input_(static_cast<const uint8_t*>(spec.input)),
      output_(static_cast<uint8_t*>(spec.output)) {
  const auto open = [&](FifoEnd& end, Fifo* fifo) {
    COLL_CHECK_NOTE(fifo != nullptr, "an algorithm uses a rank to which there is no link");
    end.open(fifo);
    const uint64_t bytes = slot_data_bytes(fifo->slot_bytes, fifo->protocol);
    COLL_CHECK_NOTE(bytes >= 16 && bytes % 16 == 0, "slots hold whole 16 bytes of data");
    COLL_CHECK_NOTE(slot_data_bytes_ == 0 || slot_data_bytes_ == bytes,
                    "all fifos of a block have slots of one size");
    slot_data_bytes_ = bytes;
  };
  const auto at = [&](int peer) { return peer * kProtocolCount + int(work.work.protocol); };
  for (const int peer : spec.recv)
    if (peer >= 0) open(recv_[recv_count_++], work.links.recv[at(peer)]);
  for (const int peer : spec.send)
    if (peer >= 0) open(send_[send_count_++], work.links.send[at(peer)]);
}

CpuBlock::~CpuBlock() {
  for (int i = 0; i < recv_count_; ++i) recv_[i].fifo->step = recv_[i].step;
  for (int i = 0; i < send_count_; ++i) send_[i].fifo->step = send_[i].step;
}

void CpuBlock::move(const Motion& motion, uint64_t n) {
  if (n == 0 || work_.failed()) return;
  if (motion.send ? lends_ : borrows_) {
    if (motion.send)
      lend(motion.in, n * work_.element_bytes);
    else
      borrow(motion.out, n * work_.element_bytes);
    return;
  }
  if (motion.receive && motion.in == nullptr) {
    if (recv_count_ == 0 && (!motion.send || send_count_ == 0)) return;
    COLL_CHECK_NOTE(recv_count_ == 1, "what is received without reducing comes from one peer");
  }
  const bool ll = work_.work.protocol == Protocol::ll && slot_data_bytes_ > 0;
  const Slices slices = cut_into_slices(
      n, work_.element_bytes, slot_data_bytes_ > 0 ? slot_data_bytes_ : n * work_.element_bytes);
  const uint64_t each = slices.elements_each * work_.element_bytes;
  uint64_t left = n * work_.element_bytes;
  Motion slice = motion;
  const bool places = !ll && wants_places(motion);
  while (left > 0) {
    const uint64_t bytes = left < each ? left : each;
    if (places) place_slices(slice.out, left, each);
    if (!(ll ? move_ll_slice(slice, bytes) : move_simple_slice(slice, bytes))) return;
    left -= bytes;
    if (slice.in != nullptr) slice.in += bytes;
    if (slice.out != nullptr) slice.out += bytes;
  }
}

bool CpuBlock::move_simple_slice(const Motion& motion, uint64_t bytes) {
  const int recvs = motion.receive ? recv_count_ : 0, sends = motion.send ? send_count_ : 0;
  for (int i = 0; i < recvs; ++i)
    if (!wait_for_data(recv_[i]) || !has_size(recv_[i], bytes)) return false;
  for (int i = 0; i < sends; ++i)
    if (!wait_for_slot(send_[i])) return false;
  if (recvs > 0 && motion.out != nullptr && !wait_until_sent()) return false;
  const FaultKind fault = due_fault(motion);
  if (work_.failed()) return false;

  const void* received[kMaxFanIn];
  void* destinations[kMaxFanOut + 1];
  int destination_count = 0;
  for (int i = 0; i < recvs; ++i) received[i] = recv_[i].data();
  const bool placed = recvs == 1 && is_placed(recv_[0]);
  Motion rest = motion;
  if (placed) received[0] = std::exchange(rest.out, nullptr);
  const bool lends = sends > 0 && lends_slice(motion, bytes);
  if (rest.out != nullptr) destinations[destination_count++] = rest.out;
  for (int i = 0; i < sends && !lends; ++i) destinations[destination_count++] = send_[i].data();
  const bool paced = sends > 0 && !lends && fault == FaultKind::none && bytes >= kStreamedBytes &&
                     (send_[0].fifo->flags & kFifoProxyReads) == 0 && !has_halves();
  if (paced && recvs == 0 && destination_count == 1 && motion.divisor <= 1)
    work_.context.pace.copy(destinations[0], motion.in, bytes);
  else if (paced && work_.context.pace.streams())
    combine_and_stream(rest, received, recvs, destinations, destination_count, bytes);
  else
    combine(rest, received, recvs, destinations, destination_count, bytes, fault);

  if (lends)
    put_lent(send_[0], motion.out != nullptr ? motion.out : motion.in, bytes);
  else
    for (int i = 0; i < sends; ++i) publish(send_[i], uint32_t(bytes), true);
  for (int i = 0; i < recvs; ++i) release(recv_[i]);
  return true;
}

// Piece by piece: into the output or, without one, into scratch memory, and while it is in the
// first-level cache on into the slots, which the peers have just read (stage_copy.h). Data that is
// only copied moves directly.
void CpuBlock::combine_and_stream(const Motion& motion, const void* const* received,
                                  int received_count, void* const* destinations,
                                  int destination_count, uint64_t bytes) {
  alignas(64) uint8_t scratch[kStreamPieceBytes];
  for (uint64_t at = 0; at < bytes; at += kStreamPieceBytes) {
    const uint64_t piece = bytes - at < kStreamPieceBytes ? bytes - at : kStreamPieceBytes;
    Motion part = motion;
    if (part.in != nullptr) part.in += at;
    if (part.out != nullptr) part.out += at;
    const void* from[kMaxFanIn];
    for (int i = 0; i < received_count; ++i)
      from[i] = static_cast<const uint8_t*>(received[i]) + at;
    const bool plain_copy = motion.divisor <= 1 && (motion.in != nullptr) + received_count == 1;
    // The analyzer does not know that there is an input or something received.
    // NOLINTNEXTLINE(clang-analyzer-core.uninitialized.Assign)
    const void* result = part.in != nullptr ? part.in : from[0];
    if (part.out != nullptr || !plain_copy) {
      void* kept = part.out != nullptr ? part.out : scratch;
      combine(part, from, received_count, &kept, 1, piece, FaultKind::none);
      result = kept;
    }
    for (int i = part.out != nullptr ? 1 : 0; i < destination_count; ++i)
      stage_copy(static_cast<uint8_t*>(destinations[i]) + at, result, piece, true);
  }
}

// One pass from what was received and `motion.in` to all destinations.
void CpuBlock::combine(const Motion& motion, const void* const* received, int received_count,
                       void* const* destinations, int destination_count, uint64_t bytes,
                       FaultKind fault) {
  if (destination_count == 0) return;
  const void* sources[kMaxFanIn + 2];
  int source_count = 0;
  if (motion.in != nullptr) sources[source_count++] = motion.in;
  for (int i = fault == FaultKind::missing ? 1 : 0; i < received_count; ++i)
    sources[source_count++] = received[i];
  if (fault == FaultKind::doubled && received_count > 0) sources[source_count++] = received[0];
  if (source_count == 0) {  // a missing contribution, and no other
    for (int i = 0; i < destination_count; ++i) std::memset(destinations[i], 0, bytes);
    return;
  }
  if (source_count == 1 && motion.divisor <= 1)
    copy_to_all(sources[0], destinations, destination_count, bytes);
  else
    work_.reduce(sources, source_count, destinations, destination_count,
                 bytes / work_.element_bytes, motion.divisor);
  if (fault == FaultKind::corrupt)
    for (int i = 0; i < destination_count; ++i) flip_a_bit(destinations[i]);
}

bool CpuBlock::move_ll_slice(const Motion& motion, uint64_t bytes) {
  const int recvs = motion.receive ? recv_count_ : 0, sends = motion.send ? send_count_ : 0;
  for (int i = 0; i < sends; ++i)
    if (!wait_for_slot(send_[i])) return false;
  const FaultKind fault = due_fault(motion);
  if (work_.failed()) return false;
  for (int i = 0; i < recvs; ++i) recv_[i].due = ll_wire_bytes(recv_[i], bytes);
  // Before the lines: a consumer that misses some looks there. A proxy is notified behind them.
  for (int i = 0; i < sends; ++i)
    if ((send_[i].fifo->flags & kFifoProxyReads) == 0 && send_[i].fifo->records != nullptr)
      recorded(send_[i]).store(ll_wire_bytes(send_[i], bytes), std::memory_order_relaxed);

  for (uint64_t at = 0; at < bytes; at += kPieceBytes) {
    const uint64_t piece = bytes - at < kPieceBytes ? bytes - at : kPieceBytes;
    // A corrupted slice has one wrong bit, in its first piece.
    const bool harmless = at > 0 && fault == FaultKind::corrupt;
    if (!move_ll_piece(motion, at, piece, harmless ? FaultKind::none : fault)) return false;
  }
  // Lines that are too many show in the record only. Over a network it is this host's own; between
  // processes it would be one more line of the other core to fetch.
  for (int i = 0; i < recvs; ++i)
    if ((recv_[i].fifo->flags & kFifoProxyWrites) != 0 && !has_due_lines(recv_[i])) return false;

  for (int i = 0; i < sends; ++i) {
    FifoEnd& end = send_[i];
    const uint32_t wire = ll_wire_bytes(end, bytes);
    auto* line = reinterpret_cast<Line*>(end.data());
    for (uint64_t rest = lines_for(bytes); rest < wire / kLineBytes; ++rest)
      store_line(line + rest, 0, uint32_t(end.step + 1));
    publish(end, wire, (end.fifo->flags & kFifoProxyReads) != 0);
  }
  for (int i = 0; i < recvs; ++i) release(recv_[i]);
  return true;
}

// The piece [at, at + bytes) of a slice: unpack, reduce, pack.
bool CpuBlock::move_ll_piece(const Motion& motion, uint64_t at, uint64_t bytes, FaultKind fault) {
  alignas(64) uint8_t scratch[kMaxFanIn][kPieceBytes];
  Motion piece = motion;
  if (piece.in != nullptr) piece.in += at;
  if (piece.out != nullptr) piece.out += at;
  const void* received[kMaxFanIn];
  const int recvs = motion.receive ? recv_count_ : 0;
  // Without a reduction the data is written directly to its destination.
  const bool direct = piece.in == nullptr && piece.out != nullptr && fault == FaultKind::none;
  for (int i = 0; i < recvs; ++i) {
    uint8_t* to = direct ? piece.out : scratch[i];
    if (!unpack(recv_[i], at, to, bytes)) return false;
    received[i] = to;
  }
  const uint8_t* result = piece.in;
  if (recvs > 0 || piece.out != nullptr || piece.divisor > 1) {
    // Reducing over the first received piece is fine: sources are read before they are overwritten.
    uint8_t* kept = piece.out != nullptr ? piece.out : scratch[0];
    void* destination = kept;
    if (!direct || recvs == 0) combine(piece, received, recvs, &destination, 1, bytes, fault);
    result = kept;
  }
  if (!motion.send) return true;
  for (int i = 0; i < send_count_; ++i)
    pack_lines(result, reinterpret_cast<Line*>(send_[i].data()) + at / kLineDataBytes, bytes,
               uint32_t(send_[i].step + 1));
  return true;
}

// Waits until the producer has published this end's step; ended by its tail, or aborted.
bool CpuBlock::wait_for_data(FifoEnd& end) {
  const auto ready = [&] {
    end.seen = load_counter(end.fifo->tail);
    return end.seen > end.step;
  };
  if (end.seen > end.step || ready()) return true;
  PatientWait wait(work_, fifo_wait(*end.fifo, WaitSide::recv, end.step, &end.seen, end.step + 1));
  while (!ready())
    if (!wait.turn()) return false;
  return true;
}

// Ranks that call an operation with different sizes cut different slices: better an error than the
// bytes of another slice.
bool CpuBlock::has_size(const FifoEnd& end, uint64_t bytes) {
  if (end.fifo->records == nullptr) return true;
  const uint64_t sent = end.fifo->records[end.slot].bytes & ~kSlotPlaced;
  return sent == bytes || wrong_size(end, sent, bytes);
}

// The same for LL, where a line of this step has arrived: its producer wrote the record before.
bool CpuBlock::has_due_lines(const FifoEnd& end) {
  if (end.fifo->records == nullptr) return true;
  const uint32_t sent = recorded(end).load(std::memory_order_relaxed);
  constexpr uint64_t kWirePerData = kLineBytes / kLineDataBytes;
  return sent == end.due || wrong_size(end, sent / kWirePerData, end.due / kWirePerData);
}

// Always false.
bool CpuBlock::unreadable(const FifoEnd& end, int error) {
  Report report = work_.report(ReportCode::unreadable);
  report.side = WaitSide::recv;
  report.peer = end.fifo->peer;
  report.step = end.step;
  report.seen = uint64_t(error);
  work_.fail(report);
  return false;
}

// Always false.
bool CpuBlock::wrong_size(const FifoEnd& end, uint64_t sent, uint64_t due) {
  Report report = work_.report(ReportCode::wrong_size);
  report.side = WaitSide::recv;
  report.peer = end.fifo->peer;
  report.step = end.step;
  report.seen = sent;
  report.wanted = due;
  work_.fail(report);
  return false;
}

// Waits until the consumer has freed the slot that this end's step reuses; ended by its head, or
// aborted.
bool CpuBlock::wait_for_slot(FifoEnd& end) {
  const uint64_t slots = end.fifo->slot_count;
  const auto ready = [&] {
    end.seen = load_counter(end.fifo->head);
    return end.seen + slots > end.step;
  };
  if (end.seen + slots > end.step || ready()) return true;
  PatientWait wait(work_,
                   fifo_wait(*end.fifo, WaitSide::send, end.step, &end.seen, end.step + 1 - slots));
  while (!ready())
    if (!wait.turn()) return false;
  return true;
}

bool CpuBlock::unpack(FifoEnd& end, uint64_t at, uint8_t* to, uint64_t bytes) {
  auto* lines = reinterpret_cast<Line*>(end.data()) + at / kLineDataBytes;
  const uint32_t flag = uint32_t(end.step + 1);
  uint64_t done = 0;
  while (done < bytes) {
    done += unpack_ready_pairs(lines + done / kLineDataBytes, to + done, bytes - done, flag);
    if (done == bytes) break;
    uint64_t data, seen;
    Line* line = lines + done / kLineDataBytes;
    if (!load_line(line, flag, data, seen) && !wait_for_line(end, line, data)) return false;
    const uint64_t part = bytes - done < kLineDataBytes ? bytes - done : kLineDataBytes;
    std::memcpy(to + done, &data, part);
    done += part;
  }
  return true;
}

// Ended by the line's flags, or aborted. Sleeps on the consumer's word: producers wake it after a
// slice even though no tail moved. A line that stays away while the slice's first is there may be
// one that the producer, with a smaller operation, never writes.
bool CpuBlock::wait_for_line(FifoEnd& end, Line* line, uint64_t& data) {
  const uint32_t flag = uint32_t(end.step + 1);
  uint64_t seen = 0;
  PatientWait wait(work_, fifo_wait(*end.fifo, WaitSide::recv, end.step, &seen, flag));
  for (uint32_t turn = 0; !load_line(line, flag, data, seen); ++turn) {
    uint64_t first, first_flag;
    if (turn >= kTurnsBeforeDoubt &&
        load_line(reinterpret_cast<Line*>(end.data()), flag, first, first_flag) &&
        !has_due_lines(end))
      return false;
    if (!wait.turn()) return false;
  }
  return true;
}

// The slice is written: mark it and go on to the next slot. Pairs with wait_for_data() or
// wait_for_line() of the consumer.
void CpuBlock::publish(FifoEnd& end, uint32_t wire_bytes, bool announce) {
  const Fifo& fifo = *end.fifo;
  if (announce) {
    if (fifo.records != nullptr) {
      const bool reduces = (fifo.flags & kFifoReduces) != 0;
      fifo.records[end.slot] = {.bytes = wire_bytes,
                                .mark = reduces ? reduction_code(work_.work.type, work_.work.op)
                                                : uint32_t(end.step + 1)};
    }
    store_counter(fifo.tail, end.step + 1);
  }
  wake_sleeper(fifo.consumer_sleeps, fifo.bell_fd);
  end.advance();
}

// The slice is read: give its slot back. Pairs with wait_for_slot() of the producer.
void CpuBlock::release(FifoEnd& end) {
  const Fifo& fifo = *end.fifo;
  store_counter(fifo.head, end.step + 1);
  wake_sleeper(fifo.producer_sleeps, fifo.bell_fd);
  end.advance();
}

FaultKind CpuBlock::due_fault(const Motion& motion) {
  if (!work_.fault_armed || !motion.receive || recv_count_ == 0) return FaultKind::none;
  return apply_fault(work_);
}

}  // namespace collctl::kernels
