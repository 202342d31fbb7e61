#include "launcher/local/frame_parser.h"

#include "base/format.h"

namespace collctl::launcher {
namespace {

struct FrameHead {
  uint32_t bytes;
  uint16_t type, reserved;
};
static_assert(sizeof(FrameHead) == 8);

}  // namespace

void append_frame(Bytes& to, uint16_t type, ByteView payload) {
  const FrameHead head{uint32_t(payload.size()), type, 0};
  const size_t at = to.size();
  to.resize(at + sizeof head + payload.size());
  std::memcpy(to.data() + at, &head, sizeof head);
  if (!payload.empty()) std::memcpy(to.data() + at + sizeof head, payload.data(), payload.size());
}

Error malformed_frame(uint16_t type, size_t bytes) {
  return Error(ErrorCode::lost, format("malformed control frame (type {}, {} bytes)", type, bytes))
      .because(Cause::malformed);
}

void FrameParser::feed(ByteView bytes) {
  // Only now, with less than a frame left, is it cheap to move the rest to the front.
  if (taken_ > 0) {
    buffer_.erase(buffer_.begin(), buffer_.begin() + std::ptrdiff_t(taken_));
    taken_ = 0;
  }
  const size_t old = buffer_.size();
  buffer_.resize(old + bytes.size());
  if (!bytes.empty()) std::memcpy(buffer_.data() + old, bytes.data(), bytes.size());
}

bool FrameParser::ready() const {
  FrameHead head;
  if (buffered() < sizeof head) return false;
  std::memcpy(&head, buffer_.data() + taken_, sizeof head);
  return head.bytes > kMaxFrame || buffered() >= sizeof head + head.bytes;
}

Result<std::optional<RawFrame>> FrameParser::next() {
  FrameHead head;
  if (buffer_.size() - taken_ < sizeof head) return std::optional<RawFrame>();
  std::memcpy(&head, buffer_.data() + taken_, sizeof head);
  if (head.bytes > kMaxFrame) return malformed_frame(head.type, head.bytes);
  if (buffer_.size() - taken_ < sizeof head + head.bytes) return std::optional<RawFrame>();
  const auto begin = buffer_.begin() + std::ptrdiff_t(taken_ + sizeof head);
  RawFrame frame{head.type, Bytes(begin, begin + std::ptrdiff_t(head.bytes))};
  taken_ += sizeof head + head.bytes;
  return std::optional<RawFrame>(std::move(frame));
}

}  // namespace collctl::launcher
