#include "transport/net/ib/receiver.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "base/format.h"
#include "transport/edge.h"
#include "transport/net/ib/sender.h"

namespace collctl::transport {

using namespace base::drivers;

namespace {

constexpr int kReceiveShift = 24;

}  // namespace

IbReceiver::IbReceiver(IbParts parts, std::vector<IbQueuePair> flushers, base::Mapping flush_target,
                       IbMemory flush_memory, base::Fd control)
    : IbConnection(std::move(parts), std::move(control)),
      flushers_(std::move(flushers)),
      flush_target_(std::move(flush_target)),
      flush_memory_(std::move(flush_memory)),
      flush_room_(flushers_.size(), kFlushRoom) {
  for (size_t i = 0; i < streams_.size(); ++i) {
    streams_[i].limits = parts_.end.streams[i];
    streams_[i].messages.resize(streams_[i].limits.window);
    streams_[i].entries =
        reinterpret_cast<ClearToSend*>(static_cast<uint8_t*>(parts_.clear_entries.get()) +
                                       IbSender::clear_offset(parts_.end.streams, int(i)));
  }
}

Result<uint64_t> IbReceiver::register_device_memory(void* address, size_t bytes, bool in_order,
                                                    std::string& how) {
  COLL_ASSIGN(const uint64_t id,
              IbConnection::register_device_memory(address, bytes, in_order, how));
  // Lines announce themselves: nobody goes by the end of the message.
  if (!flushers_.empty() && !in_order) device_memories_.push_back(id);
  return id;
}

Result<NetRequest> IbReceiver::post_send(int, const void*, uint32_t, uint64_t) {
  return Error(ErrorCode::defect, "a receive end cannot send");
}

Result<NetRequest> IbReceiver::post_recv(int stream_index, void* data, uint32_t capacity,
                                         uint64_t memory) {
  Stream& stream = streams_[size_t(stream_index)];
  const uint64_t number = stream.posted;
  if (number - stream.tested >= stream.limits.window) return kNoRequest;
  const uint32_t index = stream.place(number);
  stream.messages[index] = {};
  stream.messages[index].data = static_cast<uint8_t*>(data);
  stream.messages[index].memory = memory;
  ClearToSend& clear = stream.entries[index];
  clear.address = reinterpret_cast<uintptr_t>(data);
  clear.bytes = capacity;
  for (size_t r = 0; r < parts_.rails.size(); ++r)
    clear.keys[r] = memories_[size_t(memory) - 1].remote_key(r);
  clear.number = uint32_t(number + 1);
  ++stream.posted;
  return uint32_t(stream_index) << kReceiveShift | index;
}

Status IbReceiver::post_waiting(bool& moved) {
  if (asked_round_ != 0 && !draining()) {
    answer_moving();
    moved = true;
  }
  while (!flush_waiting_.empty()) {
    const auto [stream, number] = flush_waiting_.front();
    if (std::any_of(flush_room_.begin(), flush_room_.end(), [](uint32_t r) { return r == 0; }))
      break;
    flush_waiting_.erase(flush_waiting_.begin());
    COLL_TRY(flush_stream(stream, number));
    moved = true;
  }
  if (control_.peer_done()) return {};
  for (int s = 0; s < kernels::kProtocolCount; ++s) {
    Stream& stream = streams_[size_t(s)];
    // Receives to announce again after a lane died may be complete now; at most a window is left.
    stream.told = std::max(stream.told, stream.tested);
    const uint64_t news = stream.posted - stream.told;
    if (news != 0 && news >= stream.limits.window / 2) COLL_TRY(tell(s, moved));
  }
  return {};
}

// Entries in a row go with one write, two where the table begins anew; the last has the immediate.
Status IbReceiver::tell(int stream_index, bool& moved) {
  Stream& stream = streams_[size_t(stream_index)];
  const auto news = uint32_t(stream.posted - stream.told);
  const auto lane = std::find_if(parts_.lanes.begin(), parts_.lanes.end(),
                                 [](const IbLane& each) { return each.alive; });
  if (lane == parts_.lanes.end() || lane->room < 2) return {};
  const uint32_t window = stream.limits.window;
  const uint32_t before_end = window - stream.place(stream.told);
  VerbsSendWork chain[2];
  VerbsPiece pieces[2];
  const uint32_t counts[2] = {std::min(news, before_end), news - std::min(news, before_end)};
  const uint32_t works = counts[1] == 0 ? 1 : 2;
  uint64_t first = stream.told;
  for (uint32_t i = 0; i < works; ++i) {
    VerbsSendWork& work = chain[i];
    const ClearToSend* from = stream.entries + stream.place(first);
    pieces[i] = {.address = reinterpret_cast<uintptr_t>(from),
                 .bytes = uint32_t(counts[i] * sizeof(ClearToSend)),
                 .lkey = parts_.clear_memory.local_key(lane->rail)};
    begin_write(work, pieces[i]);
    work.flags = pieces[i].bytes <= lane->inline_bytes ? kSendInline : 0;
    work.remote_address = parts_.peer_clear_address +
                          IbSender::clear_offset(parts_.end.streams, stream_index) +
                          stream.place(first) * sizeof(ClearToSend);
    work.remote_key = parts_.peer_clear_keys[lane->peer_rail];
    first += counts[i];
  }
  VerbsSendWork& last = chain[works - 1];
  if (works == 2) chain[0].next = &last;
  last.operation = kOpWriteWithImmediate;
  lane->unreported += works;
  // A completion is not needed for each write, only before the queue is full.
  const bool signaled = lane->room - works < std::max(lane->sends / 2, 2u);
  if (signaled) last.flags |= kSendSignaled;
  last.immediate = __builtin_bswap32(uint32_t(stream_index) << 30 |
                                     (uint32_t(stream.posted) & ((1u << 30) - 1)));
  chain[0].id = last.id = encode({.work = IbWork::clear,
                                  .cost = lane->unreported,
                                  .stream = stream_index,
                                  .number = stream.posted});
  COLL_TRY(post(*lane, chain, works));
  if (signaled) lane->unreported = 0;
  stream.told = stream.posted;
  stream.allowed = std::max(stream.allowed, stream.told);
  moved = true;
  return {};
}

Status IbReceiver::announced(IbLane& lane, uint32_t immediate) {
  const Announcement what = format_.decode(immediate);
  if (what.stream >= kernels::kProtocolCount || streams_[size_t(what.stream)].limits.window == 0)
    return Error(ErrorCode::lost, format("{}: a message on an unknown stream", lane.name.text()));
  Stream& stream = streams_[size_t(what.stream)];
  const uint64_t number = format_.message(what.number, stream.tested);
  if (number >= stream.allowed)
    return Error(ErrorCode::lost,
                 format("{}: message {} of {} arrived without a clear-to-send", lane.name.text(),
                        number, kernels::name_of(kernels::Protocol(what.stream))));
  Message& message = stream.message(number);
  if (what.bytes > stream.limits.max_bytes)
    return Error(ErrorCode::lost,
                 format("{}: message {} has {} bytes, but there is room for {}", lane.name.text(),
                        number, what.bytes, stream.limits.max_bytes));
  const uint64_t bit = uint64_t(1) << (&lane - parts_.lanes.data());
  if (message.complete || (message.came_by & bit) != 0 ||
      (message.came_by != 0 && message.bytes != what.bytes))
    return Error(ErrorCode::lost, format("{}: message {} arrived twice", lane.name.text(), number));
  message.came_by |= bit;
  message.bytes = what.bytes;
  message.complete = !parts_.split || size_t(std::popcount(message.came_by)) == parts_.lanes.size();
  if (!message.complete || message.bytes == 0) return {};
  if (std::find(device_memories_.begin(), device_memories_.end(), message.memory) ==
      device_memories_.end())
    return {};
  message.flushing = 1;  // held until the reads are posted
  flush_waiting_.emplace_back(what.stream, number);
  return {};
}

// A read by each adapter that wrote a part of it.
Status IbReceiver::flush_stream(int stream_index, uint64_t number) {
  Stream& stream = streams_[size_t(stream_index)];
  Message& message = stream.message(number);
  message.flushing = 0;
  uint64_t rails = 0;
  for (size_t l = 0; l < parts_.lanes.size(); ++l)
    if ((message.came_by >> l & 1) != 0) rails |= uint64_t(1) << parts_.lanes[l].rail;
  for (size_t r = 0; r < flushers_.size(); ++r) {
    if ((rails >> r & 1) == 0) continue;
    VerbsPiece piece{.address = reinterpret_cast<uintptr_t>(flush_target_.get()),
                     .bytes = 1,
                     .lkey = flush_memory_.local_key(r)};
    VerbsSendWork work{};
    work.id = encode(
        {.work = IbWork::flush, .cost = uint32_t(r), .stream = stream_index, .number = number});
    work.pieces = &piece;
    work.piece_count = 1;
    work.operation = kOpRead;
    work.flags = kSendSignaled;
    work.remote_address = reinterpret_cast<uintptr_t>(message.data);
    work.remote_key = memories_[size_t(message.memory) - 1].remote_key(r);
    COLL_TRY_IN(flushers_[r].post_send(&work), "flush GPU memory");
    --flush_room_[r];
    ++message.flushing;
  }
  return {};
}

Status IbReceiver::completed(IbLane&, const IbWorkId& id) {
  if (id.work != IbWork::flush) return {};
  ++flush_room_[id.cost];
  Stream& stream = streams_[size_t(id.stream)];
  --stream.message(id.number).flushing;
  return {};
}

Result<NetDone> IbReceiver::test(NetRequest request) {
  Stream& stream = streams_[request >> kReceiveShift];
  const uint32_t index = request & ((1u << kReceiveShift) - 1);
  if (stream.tested == stream.posted || stream.place(stream.tested) != index ||
      !stream.messages[index].done())
    return NetDone{};
  ++stream.tested;
  return NetDone{.done = true, .bytes = stream.messages[index].bytes};
}

std::string IbReceiver::work_text(const IbWorkId& id) const {
  if (id.work == IbWork::flush) return "flush of GPU memory";
  return format("clear to send for {} up to message {}",
                kernels::name_of(kernels::Protocol(id.stream)), id.number);
}

}  // namespace collctl::transport
