#include "transport/net/socket_lane.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/format.h"
#include "base/socket.h"

namespace collctl::transport {

namespace {

constexpr size_t kLaneBatch = 8;  // messages of one send call
constexpr int kReadsPerPump = 4;  // then the driver gets to announce what has arrived
constexpr size_t kHeader = sizeof(WireHeader);

}  // namespace

SocketLane::SocketLane(int index, base::Fd fd, LaneOwner& owner, uint32_t queue_capacity)
    : index_(index),
      fd_(std::move(fd)),
      owner_(owner),
      queue_(std::bit_ceil(queue_capacity)),
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
    iovec pieces[2 * kLaneBatch];
    size_t count = 0, asked = 0, skip = front_done_;
    for (uint32_t i = out; i != in && count + 2 <= 2 * kLaneBatch; ++i) {
      Outgoing& message = queue_[i & (queue_.size() - 1)];
      if (skip < kHeader)
        pieces[count++] = {reinterpret_cast<uint8_t*>(&message.header) + skip, kHeader - skip};
      const size_t body_skip = skip > kHeader ? skip - kHeader : 0;
      if (message.header.bytes > body_skip)
        pieces[count++] = {const_cast<uint8_t*>(message.body) + body_skip,
                           message.header.bytes - body_skip};
      skip = 0;
    }
    for (size_t i = 0; i < count; ++i) asked += pieces[i].iov_len;
    Result<size_t> wrote = base::write_some(fd_.get(), std::span(pieces, count));
    if (!wrote) return fail_sending(std::move(wrote.error()));
    const size_t taken = *wrote;
    if (taken == 0) return moved;
    moved = true;
    size_t left = front_done_ + taken;
    while (out != in) {
      const WireHeader header = queue_[out & (queue_.size() - 1)].header;
      if (left < kHeader + header.bytes) break;
      left -= kHeader + header.bytes;
      out_.store(++out, std::memory_order_release);
      owner_.sent(header);
    }
    front_done_ = left;
    if (taken < asked) return moved;  // the socket is full
  }
}

// After the peer's goodbye nobody waits for credits or goodbyes any more; data is another matter.
Result<bool> SocketLane::fail_sending(Error error) {
  if (!peer_done()) return error;
  const uint32_t in = in_.load(std::memory_order_acquire);
  for (uint32_t i = out_.load(std::memory_order_relaxed); i != in; ++i)
    if (queue_[i & (queue_.size() - 1)].header.kind == WireKind::data) return error;
  out_.store(in, std::memory_order_release);
  front_done_ = 0;
  return false;
}

Result<bool> SocketLane::pump_in() {
  if (closed_) return false;
  COLL_ASSIGN(bool moved, parse());
  for (int i = 0; i < kReadsPerPump && !stalled_ && !closed_; ++i) {
    COLL_ASSIGN(const Read read, read_more());
    if (read.got == 0) break;
    moved = true;
    COLL_TRY(parse());
    if (read.emptied) break;
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
  // Behind a large body only the next header: the body after it is then received in place.
  const size_t room =
      in_body_ && body_left_ > kBuffer / 2 ? std::min(kHeader, kBuffer - end_) : kBuffer - end_;
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

// Handles everything in the buffer; true when a message was completed.
Result<bool> SocketLane::parse() {
  bool completed = false;
  while (true) {
    if (in_body_) {
      const size_t n = std::min(body_left_, end_ - begin_);
      if (n > 0) std::memcpy(body_, buffer_.data() + begin_, n);
      body_ += n;
      body_left_ -= n;
      begin_ += n;
      if (body_left_ > 0) return completed;
      in_body_ = false;
      owner_.arrived(index_, header_);
      completed = true;
    }
    if (!stalled_) {
      if (end_ - begin_ < kHeader) return completed;
      std::memcpy(&header_, buffer_.data() + begin_, kHeader);
      begin_ += kHeader;
    }
    COLL_TRY(begin_message());
    if (stalled_) return completed;
  }
}

Status SocketLane::begin_message() {
  if (header_.magic != kWireMagic || peer_done())
    return Error(ErrorCode::lost, "the peer sent bytes that are not a message");
  if (header_.kind == WireKind::goodbye) {
    if (header_.bytes != 0) return Error(ErrorCode::lost, "the peer sent a malformed goodbye");
    peer_done_.store(true, std::memory_order_release);
    base::acknowledge_now(fd_.get());
    return {};
  }
  COLL_ASSIGN(const Placement placement, owner_.place(index_, header_));
  stalled_ = placement.later;
  if (stalled_) return {};
  body_ = placement.to;
  body_left_ = header_.bytes;
  in_body_ = true;
  return {};
}

}  // namespace collctl::transport
