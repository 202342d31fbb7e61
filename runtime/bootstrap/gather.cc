// All-gather and barrier. Few ranks pass blocks along a ring; many gather up a tree of kTreeArity
// and send everything down again: 2 * depth rounds in place of n - 1.
#include <algorithm>

#include "runtime/bootstrap/state.h"

#include "base/format.h"

namespace collctl::runtime {

using namespace boot;

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

Status Bootstrap::State::gather(ByteView mine, Deadline deadline, const std::string& what,
                                const Deliver& deliver) {
  if (broken) return *broken;
  if (mine.size() > kMaxBlob)
    return Error(ErrorCode::usage, format("{}: {} bytes from one rank, the limit is {}", what,
                                          mine.size(), kMaxBlob));
  ++sequence;
  if (size == 1) return deliver ? deliver(0, mine) : Status();
  return keep(size <= kRingAtMost ? gather_ring(mine, deadline, what, deliver)
                                  : gather_tree(mine, deadline, what, deliver));
}

Status Bootstrap::State::gather_ring(ByteView mine, Deadline deadline, const std::string& what,
                                     const Deliver& deliver) {
  if (deliver) COLL_TRY(deliver(rank, mine));
  Bytes carried(mine.begin(), mine.end());
  for (int step = 1; step < size; ++step) {
    const uint64_t tag = uint64_t(sequence) << 32 | uint32_t(step);
    ring_next->post(tag, carried);
    ring_previous->expect();
    COLL_TRY(drive({ring_next.get(), ring_previous.get()}, deadline, what,
                   [&] { return !ring_next->sending() && ring_previous->received(); }));
    Message message = ring_previous->take();
    if (message.tag != tag) return out_of_step(rank, ring_previous->peer(), what);
    if (deliver) COLL_TRY(deliver((rank - step + size) % size, message.body));
    carried = std::move(message.body);
  }
  return {};
}

Status Bootstrap::State::gather_tree(ByteView mine, Deadline deadline, const std::string& what,
                                     const Deliver& deliver) {
  const uint64_t up = uint64_t(sequence) << 32 | 1, down = uint64_t(sequence) << 32 | 2;
  Bytes all;
  if (deliver) append_entry(all, rank, mine);
  Links below;
  for (const auto& child : children) below.push_back(child.get());
  for (DataLink* child : below) child->expect();
  COLL_TRY(drive(below, deadline, what, [&] {
    return std::all_of(below.begin(), below.end(), [](auto* child) { return child->received(); });
  }));
  for (DataLink* child : below) {
    const Message message = child->take();
    if (message.tag != up) return out_of_step(rank, child->peer(), what);
    all.insert(all.end(), message.body.begin(), message.body.end());
  }
  if (parent) {
    parent->post(up, all);
    parent->expect();
    COLL_TRY(drive({parent.get()}, deadline, what,
                   [&] { return !parent->sending() && parent->received(); }));
    Message message = parent->take();
    if (message.tag != down) return out_of_step(rank, parent->peer(), what);
    all = std::move(message.body);
  }
  for (DataLink* child : below) child->post(down, all);
  COLL_TRY(drive(below, deadline, what, [&] {
    return std::none_of(below.begin(), below.end(), [](auto* child) { return child->sending(); });
  }));
  if (!deliver) return {};
  ByteReader entries(all);
  std::vector<bool> seen(size_t(size), false);
  for (int i = 0; i < size; ++i) {
    const auto of = entries.get<uint32_t>();
    const ByteView bytes = entries.get_bytes(kMaxBlob);
    if (!entries.ok() || of >= uint32_t(size) || seen[of])
      return Error(ErrorCode::defect, what + ": the gathered data is malformed");
    seen[of] = true;
    COLL_TRY(deliver(int(of), bytes));
  }
  return {};
}

namespace {

// Copies fixed-size blocks; a rank with another size is named. `index_of` gives the block's place.
template <class IndexOf>
auto into_blocks(void* data, size_t bytes, const std::string& what, IndexOf index_of) {
  return [=](int of, ByteView block) -> Status {
    if (block.size() != bytes)
      return Error(ErrorCode::defect,
                   format("{}: rank {} gathers blocks of {} bytes, others blocks of {}", what, of,
                          block.size(), bytes),
                   "this happens when ranks were started with different commands")
          .blame(of);
    uint8_t* to = static_cast<uint8_t*>(data) + index_of(of) * bytes;
    if (to != block.data() && bytes > 0) std::memcpy(to, block.data(), bytes);
    return {};
  };
}

}  // namespace

Status Bootstrap::all_gather(void* data, size_t bytes, Deadline deadline) {
  const std::string what = "bootstrap: all-gather";
  const ByteView mine(static_cast<const uint8_t*>(data) + size_t(rank()) * bytes, bytes);
  return state_->gather(mine, deadline, what,
                        into_blocks(data, bytes, what, [](int of) { return size_t(of); }));
}

Result<std::vector<Bytes>> Bootstrap::all_gather_blobs(ByteView mine, Deadline deadline) {
  std::vector<Bytes> blobs;
  blobs.resize(size_t(size()));
  COLL_TRY(state_->gather(mine, deadline, "bootstrap: all-gather",
                          [&](int of, ByteView bytes) -> Status {
                            blobs[size_t(of)].assign(bytes.begin(), bytes.end());
                            return {};
                          }));
  return blobs;
}

Status Bootstrap::barrier(Deadline deadline) {
  return state_->gather({}, deadline, "bootstrap: barrier", nullptr);
}

Status Bootstrap::local_all_gather(void* data, size_t bytes, Deadline deadline) {
  const std::string what = "bootstrap: node-local all-gather";
  const std::vector<int>& local = state_->local;
  const auto index_of = [&local](int of) {
    return size_t(std::lower_bound(local.begin(), local.end(), of) - local.begin());
  };
  const ByteView mine(static_cast<const uint8_t*>(data) + index_of(rank()) * bytes, bytes);
  return state_->local_gather(mine, deadline, what, into_blocks(data, bytes, what, index_of));
}

Status Bootstrap::local_barrier(Deadline deadline) {
  return state_->local_gather({}, deadline, "bootstrap: node-local barrier", nullptr);
}

}  // namespace collctl::runtime
