// The frames of all control connections: u32 payload bytes (<= kMaxFrame), u16 type, u16 reserved,
// payload; little endian. The connection defines the types. Threads: one.
#pragma once
#include <optional>
#include <string>

#include "base/bytes.h"
#include "base/result.h"

namespace collctl::launcher {

inline constexpr uint32_t kMaxFrame = 64u << 20;

struct RawFrame {
  uint16_t type = 0;
  Bytes payload;
};

void append_frame(Bytes& to, uint16_t type, ByteView payload);
// Code lost, cause malformed.
Error malformed_frame(uint16_t type, size_t bytes);

class FrameParser {
 public:
  void feed(ByteView bytes);
  // The next whole frame; empty when more bytes are needed. A length above the bound is an error of
  // code lost, after which the stream is unusable.
  Result<std::optional<RawFrame>> next();
  size_t buffered() const { return buffer_.size() - taken_; }
  // next() has something to return.
  bool ready() const;

 private:
  Bytes buffer_;  // what arrived and was not handed out, from taken_ on
  size_t taken_ = 0;
};

}  // namespace collctl::launcher
