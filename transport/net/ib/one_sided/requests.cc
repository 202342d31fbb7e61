// Requests that a one-sided link posts: writes, reads, signals, and the reads behind writes.
#include <algorithm>

#include "transport/net/ib/one_sided/link.h"

namespace collctl::transport {

using namespace base::drivers;

IbOneSidedLink::Lane& IbOneSidedLink::signal_lane() {
  return *std::find_if(lanes_.begin(), lanes_.end() - 1, [](const Lane& l) { return l.alive; });
}

IbOneSidedLink::Lane& IbOneSidedLink::next_lane() {
  Lane* lane = &lanes_[turn_++ % lanes_.size()];
  for (size_t tried = 1; !lane->alive && tried < lanes_.size(); ++tried)
    lane = &lanes_[turn_++ % lanes_.size()];
  return *lane;
}

// A request that finds its queue pair dead is one of those that go again.
Result<bool> IbOneSidedLink::post(Lane& lane, VerbsSendWork* first, uint32_t count,
                                  const Request& request) {
  if (error_) return *error_;
  if (failover_) lane.posted.push_back(request);
  if (request.announces) ++lane.announced;
  lane.room -= count;
  if (Status posted = lane.qp.post_send(first); !posted)
    lose([&](const Lane& each) { return &each == &lane; },
         std::move(posted.error()).within(lane.name.text()));
  if (error_) return *error_;
  return true;
}

Result<bool> IbOneSidedLink::write(const IbRemoteWindow& window, const Move& move) {
  if (error_) return *error_;
  const bool inlined = move.memory == nullptr;
  if ((inlined || move.signal >= 0) && held_back()) return false;
  Target target{.address = window.address, .keys = {}};
  std::copy_n(window.keys.begin(), std::min(window.keys.size(), kIbMaxRails), target.keys.begin());
  COLL_ASSIGN(const bool posted, post_write(target, move, move.local));
  if (!posted) return false;
  ++writes_;
  if (!inlined) ++pending_[move.slot];
  return true;
}

// One request where its announcement may come with the data, else the announcement behind it.
Result<bool> IbOneSidedLink::post_write(const Target& target, const Move& move,
                                        const uint8_t* data) {
  const bool inlined = move.memory == nullptr;
  // Signals, and writes that nobody waits for, all use the signal lane.
  Lane& lane = inlined || move.signal >= 0 ? signal_lane() : next_lane();
  const bool apart = move.signal >= 0 && move.bytes > lane.large_bytes;
  const uint32_t count = apart ? 2 : 1;
  if (lane.room < count) return false;
  VerbsPiece piece{.address = reinterpret_cast<uintptr_t>(data),
                   .bytes = move.bytes,
                   .lkey = inlined ? 0 : move.memory->local_key(lane.rail)};
  VerbsSendWork chain[2] = {};
  chain[0].pieces = &piece;
  chain[0].piece_count = 1;
  chain[0].operation = move.signal >= 0 && !apart ? kOpWriteWithImmediate : kOpWrite;
  chain[0].flags = inlined ? kSendInline : 0;
  VerbsSendWork& last = chain[count - 1];
  if (apart) {
    chain[0].next = &last;
    last.operation = kOpWriteWithImmediate;
  }
  last.flags |= kSendSignaled;
  if (move.signal >= 0)
    last.immediate = __builtin_bswap32(uint32_t(move.signal) << kTimesBits | 1u);
  for (uint32_t i = 0; i < count; ++i) {
    chain[i].remote_address = target.address + move.offset;
    chain[i].remote_key = target.keys[lane.peer];
    chain[i].id = encode({.work = IbWork::data,
                          .cost = count,
                          .stream = inlined ? int(kSlots) : int(move.slot),
                          .number = move.bytes});
  }
  Request request{
      .work = IbWork::data, .announces = move.signal >= 0, .target = target, .move = move};
  if (inlined && failover_) std::copy_n(data, move.bytes, request.data.begin());
  lane.unread_at = target.address + move.offset + move.bytes - 1;
  lane.unread_key = target.keys[lane.peer];
  return post(lane, chain, count, request);
}

// A rank gets what it has put: behind writes that it did not wait for, on their queue pair.
Result<bool> IbOneSidedLink::read(const IbRemoteWindow& window, const Move& move) {
  if (error_) return *error_;
  if (writes_ != 0 && held_back()) return false;
  Target target{.address = window.address, .keys = {}};
  std::copy_n(window.keys.begin(), std::min(window.keys.size(), kIbMaxRails), target.keys.begin());
  COLL_ASSIGN(const bool posted, post_read(target, move));
  if (posted) ++pending_[move.slot];
  return posted;
}

Result<bool> IbOneSidedLink::post_read(const Target& target, const Move& move) {
  Lane& lane = writes_ != 0 ? signal_lane() : next_lane();
  if (lane.room == 0) return false;
  VerbsPiece piece{.address = reinterpret_cast<uintptr_t>(move.local),
                   .bytes = move.bytes,
                   .lkey = move.memory->local_key(lane.rail)};
  VerbsSendWork work{};
  work.pieces = &piece;
  work.piece_count = 1;
  work.operation = kOpRead;
  work.flags = kSendSignaled;
  work.remote_address = target.address + move.offset;
  work.remote_key = target.keys[lane.peer];
  work.id =
      encode({.work = IbWork::read, .cost = 1, .stream = int(move.slot), .number = move.bytes});
  return post(lane, &work, 1, {.work = IbWork::read, .target = target, .move = move});
}

bool IbOneSidedLink::any_pending() const {
  return std::any_of(pending_.begin(), pending_.end(), [](uint8_t n) { return n != 0; });
}

bool IbOneSidedLink::unread() const {
  return std::any_of(lanes_.begin(), lanes_.end(),
                     [](const Lane& lane) { return lane.unread_at != 0; });
}

Result<bool> IbOneSidedLink::read_back(uint8_t* local, const IbMemory& memory) {
  if (error_) return *error_;
  for (Lane& lane : lanes_) {
    if (lane.unread_at == 0) continue;
    if (!lane.alive) {  // both ends of it have failed: what it carried is in place
      if (!lane.settled) return false;
      lane.unread_at = 0;
      continue;
    }
    if (lane.room == 0) return false;
    VerbsPiece piece{.address = reinterpret_cast<uintptr_t>(local),
                     .bytes = 1,
                     .lkey = memory.local_key(lane.rail)};
    VerbsSendWork work{};
    work.pieces = &piece;
    work.piece_count = 1;
    work.operation = kOpRead;
    work.flags = kSendSignaled;
    work.remote_address = lane.unread_at;
    work.remote_key = lane.unread_key;
    work.id = encode({.work = IbWork::flush, .cost = 1, .stream = 0, .number = 1});
    lane.unread_at = 0;
    COLL_TRY(post(lane, &work, 1, {.work = IbWork::flush, .target = {}, .move = {}}));
    ++pending_[0];
  }
  return true;
}

Status IbOneSidedLink::signal(int signal) {
  if (error_) return *error_;
  ++owed_[signal];
  post_waiting();
  if (error_) return *error_;
  return {};
}

bool IbOneSidedLink::owes_signals() const {
  return !again_.empty() ||
         std::any_of(owed_.begin(), owed_.end(), [](const auto& each) { return each.second != 0; });
}

Result<bool> IbOneSidedLink::post_signal(int signal, uint32_t times) {
  Lane& lane = signal_lane();
  if (lane.room == 0) return false;
  VerbsSendWork work{};
  work.operation = kOpWriteWithImmediate;
  work.flags = kSendSignaled;
  work.immediate = __builtin_bswap32(uint32_t(signal) << kTimesBits | times);
  work.id = encode({.work = IbWork::signal, .cost = 1, .stream = 0, .number = uint64_t(signal)});
  return post(lane, &work, 1,
              {.work = IbWork::signal,
               .announces = true,
               .target = {},
               .move = {.signal = signal},
               .times = times});
}

void IbOneSidedLink::post_owed() {
  for (auto& [signal, times] : owed_) {
    while (times != 0 && !held_back()) {
      const auto now = uint32_t(std::min<uint64_t>(times, kMostTimes));
      const auto posted = post_signal(signal, now);
      if (!posted || !*posted) return;  // an error has emptied the list
      times -= now;
      ++signals_;
    }
  }
}

}  // namespace collctl::transport
