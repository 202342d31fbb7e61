#include "launcher/local/control.h"

#include "base/format.h"
#include "base/socket.h"

namespace collctl::launcher {
namespace {

constexpr size_t kReadChunk = 64 << 10;

}  // namespace

bool known_frame_type(uint16_t type) {
  return type >= uint16_t(FrameType::config) && type <= uint16_t(FrameType::relay);
}

Status FrameChannel::send(FrameType type, ByteView payload, Deadline deadline) {
  if (payload.size() > kMaxFrame)
    return Error(ErrorCode::defect,
                 format("a control frame of {} bytes exceeds {}", payload.size(), kMaxFrame));
  // Head and payload leave together: a small frame is one system call and one wake-up.
  Bytes wire;
  append_frame(wire, uint16_t(type), payload);
  const std::lock_guard lock(send_mutex_);
  if (broken_)
    return Error(ErrorCode::lost, "the control connection ended in the middle of a frame");
  Status sent = base::write_exact(fd_.get(), wire.data(), wire.size(), deadline);
  // Part of the frame may be in flight: nothing sensible can follow it.
  if (!sent) broken_ = true;
  return sent;
}

Status FrameChannel::send_text(FrameType type, std::string_view text, Deadline deadline) {
  return send(type, base::bytes_of(text), deadline);
}

Result<std::optional<Frame>> FrameChannel::take_buffered() {
  COLL_ASSIGN(std::optional<RawFrame> raw, parser_.next());
  if (!raw) return std::optional<Frame>();
  if (!known_frame_type(raw->type)) return malformed_frame(raw->type, raw->payload.size());
  return std::optional<Frame>(Frame{FrameType(raw->type), std::move(raw->payload)});
}

Result<std::optional<Frame>> FrameChannel::poll_frame() {
  uint8_t chunk[kReadChunk];
  while (true) {
    COLL_ASSIGN(std::optional<Frame> frame, take_buffered());
    if (frame) return frame;
    auto got = base::read_some(fd_.get(), chunk, sizeof chunk);
    if (!got) return std::move(got.error()).within("control connection");
    if (*got == 0) return std::optional<Frame>();
    parser_.feed({chunk, *got});
  }
}

Result<Frame> FrameChannel::receive(Deadline deadline) {
  while (true) {
    COLL_ASSIGN(std::optional<Frame> frame, poll_frame());
    if (frame) return std::move(*frame);
    pollfd p{fd_.get(), POLLIN, 0};
    COLL_ASSIGN(const int ready, base::poll_fds({&p, 1}, deadline));
    if (ready == 0)
      return Error(ErrorCode::deadline, "no control frame arrived before the deadline");
  }
}

}  // namespace collctl::launcher
