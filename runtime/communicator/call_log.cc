#include "runtime/communicator/call_log.h"

#include <algorithm>
#include <array>
#include <bit>

#include "base/format.h"

namespace collctl::runtime {

// Fields that do not matter to a collective are 0 in it.
bool CallLog::Call::same(const Call& other) const {
  return count == other.count && root == other.root && collective == other.collective &&
         type == other.type && op == other.op;
}

std::string CallLog::Call::text() const {
  std::string said = kernels::name_of(collective);
  if (collective == Collective::barrier) return said;
  said += format(" of {} bytes ({} {}", count * kernels::element_size(type), count,
                 kernels::name_of(type));
  if (has_op(collective)) said += format(", {}", kernels::name_of(op));
  if (has_root(collective)) said += format(", root {}", root);
  return said + ")";
}

void CallLog::note(const Operation& op) {
  if (op.collective == Collective::send_recv) {
    const uint64_t bytes = op.count * kernels::element_size(op.type);
    last_message_.store(2 * bytes + (op.output != nullptr), std::memory_order_relaxed);
    messages_.store(messages_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    return;
  }
  Call call{};
  call.collective = op.collective;
  if (op.collective != Collective::barrier) {
    call.count = op.count;
    call.type = op.type;
    if (has_op(op.collective)) call.op = op.op;
    if (has_root(op.collective)) call.root = op.root;
  }
  // A reader that sees one of the new words also sees that the slot was begun.
  const uint64_t number = noted_.load(std::memory_order_relaxed);
  const auto words = std::bit_cast<std::array<uint64_t, 2>>(call);
  Slot& slot = slots_[number % kKept];
  begun_.store(number + 1, std::memory_order_relaxed);
  slot.words[0].store(words[0], std::memory_order_release);
  slot.words[1].store(words[1], std::memory_order_release);
  noted_.store(number + 1, std::memory_order_release);
  last_message_.store(kCollective, std::memory_order_relaxed);
}

CallLog::Kept CallLog::kept() const {
  Kept k;
  k.end = noted_.load(std::memory_order_acquire);
  for (uint64_t i = 0; i < kKept; ++i) {
    std::array<uint64_t, 2> words{};
    for (size_t w = 0; w < 2; ++w) words[w] = slots_[i].words[w].load(std::memory_order_acquire);
    k.calls[i] = std::bit_cast<Call>(words);
  }
  const uint64_t begun = begun_.load(std::memory_order_acquire);
  k.from = std::min(k.end, std::max(begun, kKept) - kKept);
  return k;
}

std::string CallLog::last() const {
  if (const uint64_t message = last_message_.load(std::memory_order_relaxed);
      message != kCollective)
    return format("{} of {} bytes", message % 2 != 0 ? "receive" : "send", message / 2);
  const Kept ours = kept();
  return ours.from < ours.end ? ours.calls[(ours.end - 1) % kKept].text() : "";
}

Bytes CallLog::encode() const {
  const Kept ours = kept();
  ByteWriter w;
  w.put(ours.from).put(ours.end);
  for (uint64_t number = ours.from; number < ours.end; ++number) w.put(ours.calls[number % kKept]);
  return w.take();
}

std::optional<Error> CallLog::difference(int rank, int peer, ByteView log) const {
  ByteReader r(log);
  const auto from = r.get<uint64_t>();
  const auto end = r.get<uint64_t>();
  const Kept ours = kept();
  for (uint64_t number = from; r.ok() && number < end; ++number) {
    const Call call = r.get<Call>();
    if (!r.ok() || int(call.collective) >= kernels::kCollectiveCount ||
        int(call.type) >= kernels::kDataTypeCount || int(call.op) >= kernels::kRedOpCount)
      return std::nullopt;
    const Call& own = ours.calls[number % kKept];
    if (number < ours.from || number >= ours.end || call.same(own)) continue;
    return Error(ErrorCode::lost,
                 format("call {}: rank {} called {}, rank {} {}", number, rank, own.text(), peer,
                        call.text()),
                 "all ranks must start the same operations with the same counts and types")
        .blame(peer);
  }
  return std::nullopt;
}

}  // namespace collctl::runtime
