#include "runtime/bootstrap/gather.h"

#include <algorithm>

#include "base/format.h"

namespace collctl::runtime::boot {

namespace {

Error out_of_step(int rank, int peer, const std::string& what) {
  return Error(
      ErrorCode::defect,
      format("{}: rank {} and rank {} are in different calls of the bootstrap", what, rank, peer),
      "every rank must make the same collective calls in the same order");
}

// A gathered message: for each rank its number, its length, its bytes.
void append_entry(Bytes& to, int rank, ByteView bytes) {
  const uint32_t head[2] = {uint32_t(rank), uint32_t(bytes.size())};
  const auto* p = reinterpret_cast<const uint8_t*>(head);
  to.insert(to.end(), p, p + sizeof head);
  to.insert(to.end(), bytes.begin(), bytes.end());
}

}  // namespace

Status Gathering::gather(ByteView mine, Deadline deadline, const std::string& what,
                         const Deliver& deliver) {
  if (broken_) return *broken_;
  if (mine.size() > kMaxBlob)
    return Error(ErrorCode::usage, format("{}: {} bytes from one rank, the limit is {}", what,
                                          mine.size(), kMaxBlob));
  ++sequence_;
  if (roster_.size == 1) return deliver ? deliver(0, mine) : Status();
  return keep(roster_.size <= kRingAtMost ? ring(mine, deadline, what, deliver)
                                          : tree(mine, deadline, what, deliver));
}

Status Gathering::keep(Status outcome) {
  if (!outcome && !broken_) broken_ = outcome.error();
  return outcome;
}

Status Gathering::ring(ByteView mine, Deadline deadline, const std::string& what,
                       const Deliver& deliver) {
  if (deliver) COLL_TRY(deliver(roster_.rank, mine));
  Bytes carried(mine.begin(), mine.end());
  for (int step = 1; step < roster_.size; ++step) {
    const uint64_t tag = uint64_t(sequence_) << 32 | uint32_t(step);
    data_.ring_next->post(tag, carried);
    data_.ring_previous->expect();
    COLL_TRY(waiting_.drive(
        {data_.ring_next.get(), data_.ring_previous.get()}, deadline, what,
        [&] { return !data_.ring_next->sending() && data_.ring_previous->received(); }));
    Message message = data_.ring_previous->take();
    if (message.tag != tag) return out_of_step(roster_.rank, data_.ring_previous->peer(), what);
    if (deliver)
      COLL_TRY(deliver((roster_.rank - step + roster_.size) % roster_.size, message.body));
    carried = std::move(message.body);
  }
  return {};
}

Status Gathering::tree(ByteView mine, Deadline deadline, const std::string& what,
                       const Deliver& deliver) {
  const uint64_t up = uint64_t(sequence_) << 32 | 1, down = uint64_t(sequence_) << 32 | 2;
  Bytes all;
  if (deliver) append_entry(all, roster_.rank, mine);
  Waiting::Links below;
  for (const auto& child : data_.children) below.push_back(child.get());
  for (DataLink* child : below) child->expect();
  COLL_TRY(waiting_.drive(below, deadline, what, [&] {
    return std::all_of(below.begin(), below.end(), [](auto* child) { return child->received(); });
  }));
  for (DataLink* child : below) {
    const Message message = child->take();
    if (message.tag != up) return out_of_step(roster_.rank, child->peer(), what);
    all.insert(all.end(), message.body.begin(), message.body.end());
  }
  if (data_.parent) {
    data_.parent->post(up, all);
    data_.parent->expect();
    COLL_TRY(waiting_.drive({data_.parent.get()}, deadline, what,
                            [&] { return !data_.parent->sending() && data_.parent->received(); }));
    Message message = data_.parent->take();
    if (message.tag != down) return out_of_step(roster_.rank, data_.parent->peer(), what);
    all = std::move(message.body);
  }
  for (DataLink* child : below) child->post(down, all);
  COLL_TRY(waiting_.drive(below, deadline, what, [&] {
    return std::none_of(below.begin(), below.end(), [](auto* child) { return child->sending(); });
  }));
  if (!deliver) return {};
  ByteReader entries(all);
  std::vector<bool> seen(size_t(roster_.size), false);
  for (int i = 0; i < roster_.size; ++i) {
    const auto of = entries.get<uint32_t>();
    const ByteView bytes = entries.get_bytes(kMaxBlob);
    if (!entries.ok() || of >= uint32_t(roster_.size) || seen[of])
      return Error(ErrorCode::defect, what + ": the gathered data is malformed");
    seen[of] = true;
    COLL_TRY(deliver(int(of), bytes));
  }
  return {};
}

}  // namespace collctl::runtime::boot
