// Framed messages between the launcher and a rank, over a stream socket (framing: frame_parser.h).
// The launcher knows the frame types, never what a `data` payload means. Threads:
// FrameChannel::send is safe from several threads; receiving is one thread's.
#pragma once
#include <atomic>
#include <deque>
#include <mutex>
#include <optional>
#include <string>

#include "base/bytes.h"
#include "base/fd.h"
#include "base/record.h"
#include "base/result.h"
#include "base/wait.h"
#include "launcher/local/frame_parser.h"

namespace collctl::launcher {

enum class FrameType : uint16_t {
  config = 1,    // launcher -> rank: JSON, what to do (made by cmd)
  id = 2,        // rank 0 -> launcher -> all ranks: the unique id in hex
  phase = 3,     // rank -> launcher: "bootstrap", "wired", "running", "done"
  data = 4,      // rank -> launcher: opaque to the launcher (rows, links, talk); JSON made by cmd
  error = 5,     // rank -> launcher: encode_error()
  abort = 6,     // launcher -> rank: abort; payload = encode_error()
  progress = 7,  // rank -> launcher: how far it is, for people
  ask = 8,       // launcher -> rank: what do you do now?
  doing = 9,     // rank -> launcher: the answer; JSON made by cmd
  broken = 10,   // rank -> launcher: left a communicator that lost ranks, waits; encode_error()
  halt = 11,     // launcher -> rank: leave the communicator, but stay; payload = encode_error()
  roster = 12,   // launcher -> rank: who goes on without the lost ranks; JSON made by cmd
  relay = 13,    // rank -> launcher -> rank: what ranks say to each other; bytes made by cmd
};

struct Frame {
  FrameType type = FrameType::data;
  Bytes payload;
  std::string text() const { return {payload.begin(), payload.end()}; }
};

bool known_frame_type(uint16_t type);

using base::decode_error, base::encode_error;

class FrameChannel {
 public:
  explicit FrameChannel(base::Fd fd) : fd_(std::move(fd)) {}
  int fd() const { return fd_.get(); }
  Status send(FrameType type, ByteView payload, Deadline deadline);
  Status send_text(FrameType type, std::string_view text, Deadline deadline);
  // Takes what has arrived; a whole frame, or none yet. Code lost when the other side is gone.
  Result<std::optional<Frame>> poll_frame();
  Result<Frame> receive(Deadline deadline);

 private:
  Result<std::optional<Frame>> take_buffered();

  base::Fd fd_;
  std::mutex send_mutex_;
  bool broken_ = false;  // a send ended inside a frame; guarded by send_mutex_
  FrameParser parser_;
};

}  // namespace collctl::launcher
