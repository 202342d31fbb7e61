#include "kernels/cuda/table.h"

#include <initializer_list>

#include "kernels/cuda/window_layout.h"

namespace collctl::kernels::cuda {
namespace {

using Query = KernelQuery;

constexpr uint32_t kAll = ~0u;
template <class Enum>
constexpr uint32_t bits(std::initializer_list<Enum> values) {
  uint32_t all = 0;
  for (const Enum value : values) all |= 1u << int(value);
  return all;
}
constexpr uint32_t one(AlgorithmId id) {
  return bits({id});
}
constexpr uint32_t one(Protocol protocol) {
  return bits({protocol});
}
constexpr uint32_t one(Collective collective) {
  return bits({collective});
}

constexpr uint32_t kMessages = one(Collective::send_recv), kBroadcast = one(Collective::broadcast);
constexpr uint32_t kAllReduce = bits({Collective::all_reduce, Collective::barrier});
constexpr uint32_t kReductions = bits(
    {Collective::all_reduce, Collective::barrier, Collective::reduce, Collective::reduce_scatter});
constexpr uint32_t kOneShot = one(AlgorithmId::one_shot), kTwoShot = one(AlgorithmId::two_shot),
                   kPairwise = one(AlgorithmId::pairwise);
constexpr uint32_t kLl = one(Protocol::ll), kLl128 = one(Protocol::ll128),
                   kSimple = one(Protocol::simple);

// Below this a broadcast between buffers is over before the second of two trips pays.
constexpr uint64_t kRelayBytes = 512 * 1024;

bool any(const Query&) {
  return true;
}
bool messages_alone(const Query& q) {
  return q.messages_alone;
}
bool few_moves(const Query& q) {
  return q.few_moves;
}
bool message_lines_hold(const Query& q) {
  return q.nranks > 1 && q.bytes + 480 <= message_capacity(q.nranks);  // whole units only
}
bool enough_slots(const Query& q) {
  return q.nranks > 1 && window_layout(q.nranks).slots >= kMessageSlots;
}
// A bank of lines holds `bytes`.
bool lines_hold(const Query& q, uint64_t bytes) {
  return q.protocol == Protocol::ll ? bytes <= ll_capacity(q.nranks)
                                    : bytes + 480 <= ll128_capacity(q.nranks);
}
bool word_a_lane(const Query& q) {
  return q.word_a_lane && !q.general && lines_hold(q, q.bytes);
}
// A bank holds what is given and what is handed on of a part, each rounded up to units.
bool parts_fit(const Query& q, int parts) {
  return lines_hold(q, q.bytes / uint64_t(parts) * 2 + 4 * 512);
}
bool slices_fit(const Query& q) {
  return parts_fit(q, q.nranks);
}
bool dealt(const Query& q) {
  return q.collective == Collective::broadcast && !q.general &&
         broadcast_is_dealt(q.protocol, q.nranks, q.bytes);
}
bool dealt_lines(const Query& q) {
  return dealt(q) && parts_fit(q, q.nranks - 1);
}
bool whole_lines(const Query& q) {
  return !dealt(q) && lines_hold(q, q.bytes);
}
// Nothing to divide: who has the only slice would hear from all, and say nothing before.
bool one_unit(const Query& q) {
  return q.bytes <= (q.protocol == Protocol::ll ? 256 : 480);
}
// Stored contributions take a slot and an arrival more, but leave at the pace of stores.
bool stored(const Query& q) {
  return q.direct != DirectPath::load;
}
bool relayed(const Query& q) {
  if (q.nranks < 3) return false;
  return q.direct == DirectPath::load || (q.direct == DirectPath::best && q.bytes >= kRelayBytes);
}

constexpr const char *kOneShotText = "kernels/algo/one_shot.h",
                     *kTwoShotText = "kernels/algo/two_shot.h",
                     *kPairwiseText = "kernels/algo/pairwise.h",
                     *kSymmetricText = "kernels/algo/symmetric.h";

using enum KernelId;
constexpr Through kFifos = Through::fifos, kWindow = Through::window, kBuffers = Through::buffers;

constexpr KernelRow kRows[] = {
    // Works, through the verbs.
    {messages_fifo, kFifos, kAll, kPairwise, kAll, messages_alone,
     "messages alone, one work a channel, all alike", "sendrecv_kernel",
     "kernels/cuda/verbs/sendrecv.cuh", kPairwiseText},
    {moves, kFifos, kAll, kAll, kLl | kSimple, few_moves,
     "one operation of at most 74 moves, each of a slice and up to 32 KiB", "moves_kernel",
     "kernels/cuda/moves/moves.cuh", "kernels/algo/dispatch.h"},
    {works, kFifos, kAll, kAll, kAll, any, "any works of one protocol", "works_kernel",
     "kernels/cuda/verbs/run.cuh", "kernels/algo/dispatch.h"},
    // Messages through peer memory.
    {messages_lines, kWindow, kMessages, kPairwise, kLl128, message_lines_hold,
     "up to a bank of lines (5 MiB on the wire, of all senders)", "message_lines",
     "kernels/cuda/window/message_lines.cuh", kPairwiseText},
    {messages_store, kWindow, kMessages, kPairwise, kSimple, enough_slots,
     "up to 9 ranks: a sender has 128 slots", "message_store", "kernels/cuda/window/message.cuh",
     kPairwiseText},
    // Operations through peer memory.
    {words, kWindow, one(Collective::all_reduce), kOneShot, kLl, word_a_lane,
     "sums of floats in whole aligned words, one a lane", "sum_words",
     "kernels/cuda/window/words.cuh", kOneShotText},
    {lines_broadcast, kWindow, kBroadcast, kOneShot, kLl128, dealt_lines,
     "from 3 ranks on, above 256 KiB, up to a bank for a part", "broadcast_lines",
     "kernels/cuda/window/broadcast_lines.cuh", kOneShotText},
    {lines, kWindow, ~kMessages, kOneShot, kLl | kLl128, whole_lines,
     "up to a bank of lines (LL 144 KiB, of two ranks 256, LL128 20 MiB on the wire, of all "
     "senders)",
     "exchange_lines", "kernels/cuda/window/exchange_lines.cuh", kOneShotText},
    {lines, kWindow, kAllReduce, kTwoShot, kLl | kLl128, one_unit,
     "up to a unit (LL 256 bytes, LL128 480)", "exchange_lines",
     "kernels/cuda/window/exchange_lines.cuh", kOneShotText},
    {lines_two_shot, kWindow, kAllReduce, kTwoShot, kLl | kLl128, slices_fit,
     "up to a bank for a slice and its sums", "two_shot_lines", "kernels/cuda/window/two_shot.cuh",
     kTwoShotText},
    {store_broadcast, kWindow, kBroadcast, kOneShot, kSimple, dealt, "from 3 ranks on",
     "broadcast_store", "kernels/cuda/window/broadcast_store.cuh", kOneShotText},
    {store, kWindow, ~kMessages, kOneShot, kSimple, any, "any size", "exchange_store",
     "kernels/cuda/window/exchange_store.cuh", kOneShotText},
    {store_two_shot, kWindow, kAllReduce, kTwoShot, kSimple, any, "any size", "two_shot_store",
     "kernels/cuda/window/two_shot_store.cuh", kTwoShotText},
    // Operations between users' buffers.
    {direct_two_shot, kBuffers, one(Collective::all_reduce), kAll, kAll, stored,
     "by store, the faster path", "two_shot_direct", "kernels/cuda/window/direct.cuh",
     kSymmetricText},
    {direct_reduce, kBuffers, kReductions & ~one(Collective::barrier), kAll, kAll, any,
     "by load; other reductions always", "reduce_direct", "kernels/cuda/window/direct.cuh",
     kSymmetricText},
    {direct_relay, kBuffers, kBroadcast, kAll, kAll, relayed, "from 3 ranks and 512 KiB on",
     "put_direct", "kernels/cuda/window/direct.cuh", kSymmetricText},
    {direct_put, kBuffers, ~(kReductions | kMessages), kAll, kAll, any, "any size", "put_direct",
     "kernels/cuda/window/direct.cuh", kSymmetricText},
};

bool has(uint32_t set, int bit) {
  return (set >> bit & 1) != 0;
}

}  // namespace

std::span<const KernelRow> kernel_table() {
  return kRows;
}

const KernelRow* find_kernel(const KernelQuery& q) {
  if (q.through != Through::fifos && q.nranks - 1 > kMostPeers) return nullptr;
  for (const KernelRow& row : kRows)
    if (row.through == q.through && has(row.collectives, int(q.collective)) &&
        has(row.algorithms, int(q.algorithm)) && has(row.protocols, int(q.protocol)) && row.fits(q))
      return &row;
  return nullptr;
}

}  // namespace collctl::kernels::cuda
