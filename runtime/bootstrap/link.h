// DataLink: one data connection between two ranks, moving whole frames (tag, length, body, MAC)
// without waiting. Frames to send are borrowed until sending() is false. Used by the rank's thread
// only. Internal to the bootstrap.
#pragma once
#include <string>

#include "runtime/bootstrap/wire.h"

namespace collctl::runtime::boot {

inline constexpr size_t kMaxBlob = size_t(64) << 20;

struct Message {
  uint64_t tag = 0;
  Bytes body;
};

class DataLink {
 public:
  // Frames longer than `longest` are refused as garbage.
  DataLink(SealedFd fd, int peer, uint64_t longest)
      : fd_(std::move(fd)), peer_(peer), longest_(longest) {}

  int fd() const { return fd_.get(); }
  int peer() const { return peer_; }
  bool open() const { return bool(fd_); }
  void close() { fd_.reset(); }

  void post(uint64_t tag, ByteView body);
  bool sending() const { return sending_; }
  void expect() { expecting_ = true; }  // one frame; then progress() reads it
  bool expecting() const { return expecting_; }
  bool received() const { return received_; }
  Message take();
  uint64_t pending_bytes() const { return in_.body.size(); }

  short events() const;
  // Moves what can be moved now. An error (code lost) ends the link.
  Status progress();

 private:
  struct Head {
    uint64_t tag, length;
  };
  Status progress_send();
  Status progress_receive();

  SealedFd fd_;
  int peer_;
  uint64_t longest_;
  Head out_head_{}, in_head_{};
  ByteView out_body_;
  Mac out_mac_{}, in_mac_{};
  size_t out_moved_ = 0, in_moved_ = 0;  // of head, body and MAC together
  Message in_;
  bool sending_ = false, expecting_ = false, received_ = false;
};

}  // namespace collctl::runtime::boot
