#include "transport/net/ib/sender.h"

#include <algorithm>

#include "base/check.h"
#include "base/format.h"
#include "base/log.h"
#include "transport/edge.h"

namespace collctl::transport {

using namespace base::drivers;

namespace {

constexpr int kSendShift = 24;
constexpr uint32_t kPartGrain = 128;  // LL128's lines are not cut
constexpr int kChain = 8;             // requests posted with one call

uint32_t pieces_of(uint32_t bytes, uint32_t most) {
  return bytes / most + (bytes % most != 0 ? 1 : 0);
}

}  // namespace

size_t IbSender::clear_offset(std::span<const NetStream> streams, int stream) {
  size_t entries = 0;
  for (int i = 0; i < stream; ++i) entries += streams[size_t(i)].window;
  return entries * sizeof(ClearToSend);
}

size_t IbSender::clear_bytes(std::span<const NetStream> streams) {
  return clear_offset(streams, int(streams.size()));
}

uint32_t IbSender::works_of(uint32_t bytes, uint32_t max_message_bytes, bool is_apart) {
  const uint32_t pieces = std::max(1u, pieces_of(bytes, max_message_bytes));
  return pieces + (is_apart ? 1 : 0);
}

IbSender::IbSender(IbParts parts, base::Fd control)
    : IbConnection(std::move(parts), std::move(control)) {
  for (size_t i = 0; i < streams_.size(); ++i) {
    streams_[i].limits = parts_.end.streams[i];
    streams_[i].messages.resize(streams_[i].limits.window);
    streams_[i].entries = reinterpret_cast<const ClearToSend*>(
        static_cast<const uint8_t*>(parts_.clear_entries.get()) +
        clear_offset(parts_.end.streams, int(i)));
  }
  const int how = parts_.settings.adaptive_routing;
  for (IbLane& lane : parts_.lanes) {
    const IbPort& port = *parts_.rails[lane.rail].port;
    lane.write_bytes = port.facts.max_message_bytes;
    // Packets of large messages may overtake each other: only an announcement of its own then
    // comes behind all of them.
    const bool adaptive = how < 0 ? !port.ethernet() : how != 0;
    lane.large_bytes = adaptive ? parts_.settings.large_bytes : UINT32_MAX;
  }
  look_at_lanes();
}

void IbSender::look_at_lanes() {
  alive_.clear();
  for (IbLane& lane : parts_.lanes)
    if (lane.alive) alive_.push_back(&lane);
}

uint32_t IbSender::works_on(const IbLane& lane, uint32_t bytes) {
  if (bytes <= lane.write_bytes && bytes <= lane.large_bytes) return 1;
  return works_of(bytes, lane.write_bytes, bytes > lane.large_bytes);
}

Result<NetRequest> IbSender::post_recv(int, void*, uint32_t, uint64_t) {
  return Error(ErrorCode::defect, "a send end cannot receive");
}

Result<NetRequest> IbSender::post_send(int stream_index, const void* data, uint32_t bytes,
                                       uint64_t memory) {
  Stream& stream = streams_[size_t(stream_index)];
  const uint64_t number = stream.posted;
  if (number - stream.tested >= stream.limits.window || number >= stream.cleared ||
      moving_round_ != 0)
    return kNoRequest;
  COLL_CHECK(bytes <= stream.limits.max_bytes);
  const uint32_t index = stream.place(number);
  Message& message = stream.messages[index];
  message.data = static_cast<const uint8_t*>(data);
  message.bytes = bytes;
  message.memory = memory;
  message.parts_left = 0;
  message.lane = nullptr;
  COLL_TRY(take_entry(stream_index, number, message));
  COLL_ASSIGN(const bool started, start(stream_index, number));
  if (!started) return kNoRequest;
  ++stream.posted;
  return uint32_t(stream_index) << kSendShift | index;
}

// The entry came over the network: it is copied once, and believed only as far as it is what must
// come next.
Status IbSender::take_entry(int stream_index, uint64_t number, Message& message) const {
  const Stream& stream = streams_[size_t(stream_index)];
  ClearToSend& entry = message.clear;
  entry = stream.entries[stream.place(number)];
  const std::string& peer = parts_.lanes[0].name.peer;
  if (entry.number != uint32_t(number + 1) || entry.address == 0)
    return Error(
        ErrorCode::lost,
        format("{} allowed message {}, but {} was expected", peer, entry.number, number + 1),
        "do all ranks start the same operations in the same order?");
  if (message.bytes > entry.bytes)
    return Error(ErrorCode::lost,
                 format("message {} has {} bytes here, but {} has room for {}", number,
                        message.bytes, peer, entry.bytes),
                 "all ranks must call an operation with the same size and type");
  return {};
}

// A message takes one lane, in turn, or a part of it each. The lanes that are left when some have
// died take their turns.
std::span<IbLane* const> IbSender::lanes_for(uint64_t number) const {
  const std::span<IbLane* const> alive = alive_;
  return parts_.split ? alive : alive.subspan(ring_place(number, uint32_t(alive.size())), 1);
}

// False when a lane has no room for it now.
Result<bool> IbSender::start(int stream_index, uint64_t number) {
  Stream& stream = streams_[size_t(stream_index)];
  Message& message = stream.message(number);
  const std::span<IbLane* const> lanes = lanes_for(number);
  const uint32_t share =
      lanes.size() == 1
          ? message.bytes
          : uint32_t((uint64_t(message.bytes) + lanes.size() - 1) / lanes.size() + kPartGrain - 1) /
                kPartGrain * kPartGrain;
  for (const IbLane* lane : lanes)
    if (lane->room < works_on(*lane, std::min(share, message.bytes))) return false;
  uint32_t offset = 0;
  for (IbLane* lane : lanes) {
    const uint32_t bytes = std::min(share, message.bytes - offset);
    COLL_TRY(
        post_part(*lane, message,
                  {.stream = stream_index, .number = number, .offset = offset, .bytes = bytes}));
    offset += bytes;
  }
  message.parts_left = uint32_t(lanes.size());
  message.lane = lanes[0];
  return true;
}

// Writes of at most the port's message size; the last one carries the announcement, or comes behind
// the data without any.
Status IbSender::post_part(IbLane& lane, const Message& message, const Part& part) {
  const uint32_t works = works_on(lane, part.bytes);
  const uint32_t lkey = part.bytes == 0 ? 0 : key(message.memory, lane.rail);
  VerbsSendWork chain[kChain];
  VerbsPiece pieces[kChain];
  uint32_t done = 0;
  for (uint32_t first = 0; first < works; first += kChain) {
    const uint32_t count = std::min(works - first, uint32_t(kChain));
    for (uint32_t i = 0; i < count; ++i) {
      const bool last = first + i + 1 == works;
      const uint32_t bytes = std::min(lane.write_bytes, part.bytes - done);
      VerbsSendWork& work = chain[i];
      pieces[i] = {.address = reinterpret_cast<uintptr_t>(message.data) + part.offset + done,
                   .bytes = bytes,
                   .lkey = lkey};
      begin_write(work, pieces[i]);
      if (i + 1 < count) work.next = &chain[i + 1];
      work.remote_address = message.clear.address + part.offset + done;
      work.remote_key = message.clear.keys[lane.peer_rail];
      // A failure returns under the id of the request that failed, signaled or not.
      work.id = encode(
          {.work = IbWork::data, .cost = works, .stream = part.stream, .number = part.number});
      done += bytes;
      if (!last) continue;
      work.operation = kOpWriteWithImmediate;
      work.flags = kSendSignaled;
      work.immediate = __builtin_bswap32(format_.encode(
          {.stream = part.stream, .number = uint32_t(part.number), .bytes = message.bytes}));
    }
    COLL_TRY(post(lane, chain, count));
  }
  return {};
}

Result<NetDone> IbSender::test(NetRequest request) {
  Stream& stream = streams_[request >> kSendShift];
  const uint32_t index = request & ((1u << kSendShift) - 1);
  if (stream.tested == stream.posted || stream.place(stream.tested) != index ||
      stream.messages[index].parts_left != 0)
    return NetDone{};
  ++stream.tested;
  return NetDone{.done = true, .bytes = stream.messages[index].bytes};
}

Status IbSender::completed(IbLane&, const IbWorkId& id) {
  Stream& stream = streams_[size_t(id.stream)];
  // Numbers are told apart within a window; a message that was sent again may be over already.
  Message& message = stream.message(id.number);
  if (message.parts_left != 0) --message.parts_left;
  return {};
}

// The peer wrote entries for receives it posted; the immediate says up to which.
Status IbSender::announced(IbLane& lane, uint32_t immediate) {
  const int index = int(immediate >> 30);
  if (index >= kernels::kProtocolCount || streams_[size_t(index)].limits.window == 0)
    return Error(ErrorCode::lost, format("{}: an entry for an unknown stream", lane.name.text()));
  Stream& stream = streams_[size_t(index)];
  constexpr uint32_t kMask = (1u << 30) - 1;
  const uint32_t more = (immediate - uint32_t(stream.cleared)) & kMask;
  if (more > stream.limits.window) return {};  // older news, by another lane
  stream.cleared += more;
  if (stream.cleared > stream.posted + stream.limits.window)
    return Error(ErrorCode::lost, format("{}: more entries than receives", lane.name.text()));
  return {};
}

std::string IbSender::work_text(const IbWorkId& id) const {
  const Stream& stream = streams_[size_t(id.stream)];
  return format("send message {} of {} ({} bytes)", id.number,
                kernels::name_of(kernels::Protocol(id.stream)),
                stream.messages[stream.place(id.number)].bytes);
}

}  // namespace collctl::transport
