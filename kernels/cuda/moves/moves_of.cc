#include <algorithm>

#include "kernels/algo/dispatch.h"
#include "kernels/cuda/moves/call.h"
#include "kernels/record/block_record.h"
#include "kernels/slices.h"

namespace collctl::kernels::cuda {
namespace {

// NOLINTBEGIN(performance-no-int-to-ptr): events carry addresses as numbers
const uint8_t* memory_at(uint64_t address) {
  return reinterpret_cast<const uint8_t*>(address);
}
uint8_t* place_at(uint64_t address) {
  return reinterpret_cast<uint8_t*>(address);
}
// NOLINTEND(performance-no-int-to-ptr)

// The events of a work become the moves of a block.
class Moves : public EventSink {
 public:
  Moves(const WorksLaunch& launch, const Work& work, MovesCall& call, MovesBlock& block)
      : work_(work),
        links_(launch.host_links[work.channel]),
        most_bytes_(most_bytes(launch, work)),
        call_(call),
        block_(block) {}

  void event(int part, const Event& event) override {
    if (!fits_) return;
    fits_ = part == 0 && !uses_window(event.verb) && put(event);
  }
  bool fits() const { return fits_; }

 private:
  static uint64_t most_bytes(const WorksLaunch& launch, const Work& work) {
    return std::min<uint64_t>(slot_data_bytes(launch.slot_bytes, work.protocol), kMostMoveBytes);
  }
  bool put(const Event& event) {
    const uint64_t bytes = event.n * element_size(work_.type);
    if (bytes == 0) return true;
    const VerbShape shape = shape_of(event.verb);
    Move move{};
    for (const int32_t peer : event.recv)
      if (peer >= 0 && !use(true, peer, move.recv[move.in_count++])) return false;
    // Nothing is received from nobody, nor sent on.
    if (!shape.reads && move.in_count == 0) return true;
    for (const int32_t peer : event.send)
      if (peer >= 0 && !use(false, peer, move.send[move.out_count++])) return false;
    if (shape.reads) move.in = memory_at(event.from);
    const bool in_place = !shape.receives && event.from == event.to;
    if (shape.writes && !in_place) move.out = place_at(event.to);
    if (move.in_count + move.out_count == 0 && move.out == nullptr) return true;
    if (bytes > most_bytes_) return false;
    if (block_.first_move + block_.move_count == kMostMoves ||
        block_.move_count == kMostMovesOfBlock)
      return false;
    move.bytes = uint32_t(bytes);
    move.divides = event.post;
    call_.moves[block_.first_move + block_.move_count++] = move;
    call_.head.most_bytes = std::max(call_.head.most_bytes, move.bytes);
    return true;
  }

  bool use(bool receives, int32_t peer, MoveEnd& end) {
    Fifo* const fifo =
        (receives ? links_.recv : links_.send)[peer * kProtocolCount + int(work_.protocol)];
    if (fifo == nullptr) return false;  // a planner's bug, which the verbs' kernel reports
    MoveFifo* const first = call_.fifos + block_.first_fifo;
    MoveFifo* const behind = first + block_.fifo_count;
    MoveFifo* const known =
        std::find_if(first, behind, [&](const MoveFifo& f) { return f.fifo == fifo; });
    if (known == behind) {
      if (behind == call_.fifos + kMostMoveFifos || block_.fifo_count == kMostFifosOfBlock)
        return false;
      ++block_.fifo_count;
      *known = {.fifo = fifo, .steps = 0, .receives = receives};
    }
    end = {.fifo = uint8_t(known - first), .later = known->steps};
    return ++known->steps < UINT8_MAX;
  }

  const Work& work_;
  const ChannelLinks& links_;
  const uint64_t most_bytes_;
  MovesCall& call_;
  MovesBlock& block_;
  bool fits_ = true;
};

bool same_kind(const Work& a, const Work& b) {
  return a.op_count == b.op_count && a.type == b.type && a.op == b.op && a.nranks == b.nranks &&
         a.collective == b.collective && a.algorithm == b.algorithm;
}

// Whether it can be small, before its algorithm is run: every chunk is a move of somebody's.
bool may_be_small(const Work& work) {
  return work.chunk_count > 0 && work.part_count / work.chunk_count <= kMostMovesOfBlock &&
         work.nranks > 1 && work.nranks <= kMostMovesOfBlock &&
         !is_over(work.algorithm, Over::rounds) && !needs_window(work.algorithm) &&
         !shares_buffers(work);
}

}  // namespace

bool moves_of(const WorksLaunch& launch, MovesCall& call) {
  if (launch.protocol == Protocol::ll128 || launch.work_count > kMostMoveBlocks ||
      launch.host_links == nullptr || launch.host_orders == nullptr || launch.slot_bytes == 0 ||
      !one_work_a_channel(launch))
    return false;
  const Work& first = launch.works[0];
  call.head = {.shared = launch.shared,
               .op_count = first.op_count,
               .divisor = first.op == RedOp::avg ? uint32_t(first.nranks) : 1,
               .most_bytes = 0,
               .type = first.type,
               .op = first.op,
               .collective = first.collective,
               .algorithm = first.algorithm,
               .protocol = launch.protocol};
  uint16_t moves = 0, fifos = 0;
  for (int w = 0; w < launch.work_count; ++w) {
    Work work = launch.works[w];
    if (!same_kind(work, first) || !may_be_small(work)) return false;
    work.ring.order = launch.host_orders[w];
    MovesBlock& block = call.blocks[w];
    block = {.rank = work.rank,
             .channel = work.channel,
             .first_move = moves,
             .move_count = 0,
             .first_fifo = fifos,
             .fifo_count = 0};
    Moves sink(launch, work, call, block);
    RecordBackend backend(work, sink);
    if (!run_algorithm(backend, work) || !sink.fits()) return false;
    moves = uint16_t(moves + block.move_count);
    fifos = uint16_t(fifos + block.fifo_count);
  }
  return moves > 0;
}

}  // namespace collctl::kernels::cuda
