#include "transport/net/socket/lane.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/format.h"
#include "base/socket.h"

namespace collctl::transport {

namespace {

constexpr size_t kLaneBatch = 8;  // messages of one send call
constexpr int kReadsPerPump = 4;  // then the driver gets to announce what has arrived
constexpr size_t kHeader = sizeof(WireHeader), kTag = sizeof(base::StreamMac::Tag);

ByteView bytes_of(const WireHeader& header) {
  return {reinterpret_cast<const uint8_t*>(&header), kHeader};
}

}  // namespace

struct SocketLane::Batch {
  static constexpr size_t kOfMessage = 4;  // header and tag, part and tag
  iovec pieces[kOfMessage * kLaneBatch];
  size_t count = 0;
  // Adds the rest of a piece once `skip` bytes of the message have gone.
  void add(const void* at, size_t bytes, size_t& skip) {
    const size_t gone = std::min(skip, bytes);
    skip -= gone;
    if (gone < bytes)
      pieces[count++] = {static_cast<uint8_t*>(const_cast<void*>(at)) + gone, bytes - gone};
  }
};

Result<LaneMacs> LaneMacs::make(const base::Session& session) {
  COLL_ASSIGN(auto out, base::StreamMac::make(session, session.connector));
  COLL_ASSIGN(auto in, base::StreamMac::make(session, !session.connector));
  return LaneMacs{std::move(out), std::move(in)};
}

SocketLane::SocketLane(int index, base::Fd fd, LaneOwner& owner, uint32_t queue_capacity,
                       std::optional<LaneMacs> macs)
    : index_(index),
      fd_(std::move(fd)),
      owner_(&owner),
      queue_(std::bit_ceil(queue_capacity)),
      macs_(std::move(macs)),
      tags_(macs_ ? queue_.size() : 0),
      head_(macs_ ? kHeader + kTag : kHeader),
      buffer_(kBuffer) {}

bool SocketLane::push(const WireHeader& header, const void* body) {
  const uint32_t in = in_.load(std::memory_order_relaxed);
  // Pairs with the release in pump_out: the entry is free again.
  if (in - out_.load(std::memory_order_acquire) == queue_.size()) return false;
  queue_[in & (queue_.size() - 1)] = {header, static_cast<const uint8_t*>(body)};
  in_.store(in + 1, std::memory_order_release);
  return true;
}

Result<bool> SocketLane::pump_out() {
  bool moved = false;
  while (true) {
    uint32_t out = out_.load(std::memory_order_relaxed);
    // Pairs with the release in push: the entry is written.
    const uint32_t in = in_.load(std::memory_order_acquire);
    if (in == out) return moved;
    Batch batch;
    if (macs_)
      COLL_TRY(gather_with_tags(out, in, batch));
    else
      gather(out, in, batch);
    size_t asked = 0;
    for (size_t i = 0; i < batch.count; ++i) asked += batch.pieces[i].iov_len;
    Result<size_t> wrote = base::write_some(fd_.get(), std::span(batch.pieces, batch.count));
    if (!wrote) return fail_sending(std::move(wrote.error()));
    const size_t taken = *wrote;
    if (taken == 0) return moved;
    moved = true;
    size_t left = front_done_ + taken;
    while (out != in) {
      const WireHeader header = queue_[out & (queue_.size() - 1)].header;
      const size_t bytes = wire_bytes(header);
      if (left < bytes) break;
      left -= bytes;
      if (macs_) tags_[out & (queue_.size() - 1)].made = 0;
      out_.store(++out, std::memory_order_release);
      owner_->sent(header);
    }
    front_done_ = left;
    if (taken < asked) return moved;  // the socket is full
  }
}

void SocketLane::gather(uint32_t out, uint32_t in, Batch& batch) {
  size_t skip = front_done_;
  for (uint32_t i = out; i != in && i - out < kLaneBatch; ++i) {
    const Outgoing& message = queue_[i & (queue_.size() - 1)];
    batch.add(&message.header, kHeader, skip);
    batch.add(message.body, message.header.bytes, skip);
  }
}

// Tags are made in the order of the wire, each when its record may go out: what a call reads for
// them it has just sent or is about to send. One part of a message at a time.
Status SocketLane::gather_with_tags(uint32_t out, uint32_t in, Batch& batch) {
  size_t skip = front_done_, read = 0;
  for (uint32_t i = out; i != in && i - out < kLaneBatch && read < kLanePart; ++i) {
    const Outgoing& message = queue_[i & (queue_.size() - 1)];
    Tags& tags = tags_[i & (queue_.size() - 1)];
    if (tags.made == 0) {
      COLL_ASSIGN(tags.head, macs_->out.next(bytes_of(message.header)));
      tags.made = 1;
    }
    batch.add(&message.header, kHeader, skip);
    batch.add(tags.head.data(), kTag, skip);
    const size_t part = skip / (kLanePart + kTag), begin = part * kLanePart;
    if (begin >= message.header.bytes) continue;  // it has no body
    const size_t bytes = std::min<size_t>(kLanePart, message.header.bytes - begin);
    skip -= part * (kLanePart + kTag);
    if (tags.made == part + 1) {
      COLL_ASSIGN(tags.part, macs_->out.next({message.body + begin, bytes}));
      ++tags.made;
      read += bytes;
    }
    batch.add(message.body + begin, bytes, skip);
    batch.add(tags.part.data(), kTag, skip);
    if (begin + bytes < message.header.bytes) break;
  }
  return {};
}

size_t SocketLane::wire_bytes(const WireHeader& header) const {
  if (!macs_) return kHeader + header.bytes;
  return head_ + header.bytes + (size_t(header.bytes) + kLanePart - 1) / kLanePart * kTag;
}

// After the peer's goodbye nobody waits for credits or goodbyes any more; data is another matter.
Result<bool> SocketLane::fail_sending(Error error) {
  if (!peer_done()) return error;
  const uint32_t in = in_.load(std::memory_order_acquire);
  for (uint32_t i = out_.load(std::memory_order_relaxed); i != in; ++i)
    if (queue_[i & (queue_.size() - 1)].header.kind == WireKind::data) return error;
  for (Tags& tags : tags_) tags.made = 0;
  out_.store(in, std::memory_order_release);
  front_done_ = 0;
  return false;
}

Result<bool> SocketLane::pump_in() {
  bool moved = false;
  if (held_) {
    held_ = false;
    COLL_TRY(parse());
    if (held_) return false;
    moved = true;
  }
  for (int i = 0; i < kReadsPerPump && !closed_; ++i) {
    COLL_ASSIGN(const Read read, read_more());
    if (read.got == 0) break;
    moved = true;
    COLL_TRY(parse());
    if (read.emptied || held_) break;
  }
  return moved;
}

// Fills the body in progress first, then the buffer. Nothing: empty, or closed after a goodbye.
Result<SocketLane::Read> SocketLane::read_more() {
  std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  iovec pieces[2];
  size_t count = 0;
  if (in_body_) pieces[count++] = {body_, body_left_};
  // Behind a large body only its tag and the next header: what comes after is then received in
  // place.
  const size_t behind = !macs_ ? kHeader : later_ > 0 ? kTag : kTag + head_;
  const size_t room =
      in_body_ && body_left_ > kBuffer / 2 ? std::min(behind, kBuffer - end_) : kBuffer - end_;
  pieces[count++] = {buffer_.data() + end_, room};
  Result<size_t> got = base::read_some(fd_.get(), std::span(pieces, count));
  if (!got) {
    if (!peer_done() || in_body_ || end_ != 0) return std::move(got.error());
    closed_ = true;
    return Read{};
  }
  const size_t asked = room + (in_body_ ? body_left_ : 0);
  size_t buffered = *got;
  if (in_body_) {
    const size_t direct = std::min(buffered, body_left_);
    body_ += direct;
    body_left_ -= direct;
    buffered -= direct;
  }
  end_ += buffered;
  return Read{.got = *got, .emptied = *got < asked};
}

// Handles everything in the buffer.
Status SocketLane::parse() {
  while (true) {
    if (in_body_) {
      const size_t n = std::min(body_left_, end_ - begin_);
      if (n > 0) std::memcpy(body_, buffer_.data() + begin_, n);
      body_ += n;
      body_left_ -= n;
      begin_ += n;
      if (body_left_ > 0) return {};
      if (part_ > 0 && macs_) {
        if (end_ - begin_ < kTag) return {};
        COLL_TRY(check({body_ - part_, part_}));
        if (later_ > 0) {
          begin_part();
          continue;
        }
      }
      in_body_ = false;
      owner_->arrived(index_, header_);
    }
    if (end_ - begin_ < head_) return {};
    std::memcpy(&header_, buffer_.data() + begin_, kHeader);
    if (!owner_->takes(header_)) {
      held_ = true;
      return {};
    }
    begin_ += kHeader;
    if (macs_) COLL_TRY(check(bytes_of(header_)));
    COLL_TRY(begin_message());
  }
}

void SocketLane::move_body(const uint8_t* from, uint8_t* to) {
  const size_t done = part_ - body_left_;
  if (in_body_ && body_ == from + done) body_ = to + done;
}

Status SocketLane::begin_message() {
  if (header_.magic != kWireMagic || peer_done())
    return Error(ErrorCode::lost, "the peer sent bytes that are not a message");
  if (header_.kind == WireKind::goodbye) {
    if (header_.bytes != 0) return Error(ErrorCode::lost, "the peer sent a malformed goodbye");
    if (--goodbyes_left_ > 0) return {};
    peer_done_.store(true, std::memory_order_release);
    base::acknowledge_now(fd_.get());
    return {};
  }
  COLL_ASSIGN(body_, owner_->place(index_, header_));
  later_ = header_.bytes;
  begin_part();
  in_body_ = true;
  return {};
}

void SocketLane::begin_part() {
  part_ = macs_ ? std::min<size_t>(later_, kLanePart) : later_;
  body_left_ = part_;
  later_ -= part_;
}

// The record whose tag comes next in the buffer.
Status SocketLane::check(ByteView record) {
  COLL_ASSIGN(const auto tag, macs_->in.next(record));
  if (!base::equal_constant_time(tag, {buffer_.data() + begin_, kTag}))
    return Error(ErrorCode::lost,
                 "what it sent was changed on the way (something between the hosts interferes)");
  begin_ += kTag;
  return {};
}

}  // namespace collctl::transport
