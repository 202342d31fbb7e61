#include "runtime/call_log.h"

#include <algorithm>

#include "base/format.h"

namespace collctl::runtime {

// What does not matter to a collective is 0 in it.
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
  if (op.collective == Collective::send_recv) return;
  Call call{};
  call.collective = op.collective;
  if (op.collective != Collective::barrier) {
    call.count = op.count;
    call.type = op.type;
    if (has_op(op.collective)) call.op = op.op;
    if (has_root(op.collective)) call.root = op.root;
  }
  const std::lock_guard lock(mutex_);
  calls_[noted_++ % kKept] = call;
}

Bytes CallLog::encode() const {
  const std::lock_guard lock(mutex_);
  ByteWriter w;
  w.put(noted_);
  for (uint64_t number = noted_ - std::min(noted_, kKept); number < noted_; ++number)
    w.put(calls_[number % kKept]);
  return w.take();
}

std::optional<Error> CallLog::difference(int rank, int peer, ByteView log) const {
  ByteReader r(log);
  const auto theirs = r.get<uint64_t>();
  const std::lock_guard lock(mutex_);
  const uint64_t ours_from = noted_ - std::min(noted_, kKept);
  for (uint64_t number = theirs - std::min(theirs, kKept); r.ok() && number < theirs; ++number) {
    const Call call = r.get<Call>();
    if (!r.ok() || int(call.collective) >= kernels::kCollectiveCount ||
        int(call.type) >= kernels::kDataTypeCount || int(call.op) >= kernels::kRedOpCount)
      return std::nullopt;
    if (number < ours_from || number >= noted_ || call.same(calls_[number % kKept])) continue;
    return Error(ErrorCode::lost,
                 format("call {}: rank {} called {}, rank {} {}", number, rank,
                        calls_[number % kKept].text(), peer, call.text()),
                 "all ranks must start the same operations with the same counts and types")
        .blame(peer);
  }
  return std::nullopt;
}

}  // namespace collctl::runtime
