// One socket of a network connection: a queue of messages going out and a parser of messages coming
// in. Messages are sent from and received in place; what is small arrives with its header in
// one read.
//
// With MACs (--integrity) a message goes as records: its header, and its body in parts of at most
// kLanePart bytes, each followed by its tag. A header is looked at, and a message has arrived, when
// all tags up to there were right.
//
// push() is called by the connection's driver; pump_out(), pump_in() and the callbacks by the one
// thread that serves the lane at the time (the driver, or a helper thread). The lane owns its
// socket.
#pragma once
#include <atomic>
#include <optional>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "base/stream_mac.h"

namespace collctl::transport {

enum class WireKind : uint8_t { data = 1, credit = 2, goodbye = 3 };

struct WireHeader {
  uint16_t magic;
  WireKind kind;
  uint8_t stream;
  uint32_t bytes;     // of the body that follows
  uint64_t sequence;  // data: number of the message in its stream; credit: receives reposted
};
static_assert(sizeof(WireHeader) == 16);
inline constexpr uint16_t kWireMagic = 0x434e;

class LaneOwner {
 public:
  virtual ~LaneOwner() = default;
  // False: not yet; it is asked again at the next pump_in().
  virtual bool takes(const WireHeader& /*header*/) { return true; }
  // A header has arrived: checks it against what was agreed and says where the body goes.
  virtual Result<uint8_t*> place(int lane, const WireHeader& header) = 0;
  virtual void arrived(int lane, const WireHeader& header) = 0;  // the body is complete
  virtual void sent(const WireHeader& header) = 0;               // the socket took all of it
};

inline constexpr uint32_t kLanePart = 128 << 10;

struct LaneMacs {
  base::StreamMac out, in;
  static Result<LaneMacs> make(const base::Session& session);
};

class SocketLane {
 public:
  // Without `macs` bytes go as they are.
  SocketLane(int index, base::Fd fd, LaneOwner& owner, uint32_t queue_capacity,
             std::optional<LaneMacs> macs = {});
  int fd() const { return fd_.get(); }
  // From here on; there are so many ends at the peer, each of which says goodbye.
  void hand_to(LaneOwner& owner, int ends) {
    owner_ = &owner;
    goodbyes_left_ = ends;
  }
  // False when the queue is full.
  bool push(const WireHeader& header, const void* body);
  // True when bytes moved.
  Result<bool> pump_out();
  Result<bool> pump_in();
  bool sending() const {
    return in_.load(std::memory_order_acquire) != out_.load(std::memory_order_acquire);
  }
  // The rest of a body that is being received at `from` goes to `to`; its beginning is lost.
  void move_body(const uint8_t* from, uint8_t* to);
  // It is in the middle of something, as the thread knows that serves it.
  bool busy() const { return sending() || in_body_ || begin_ != end_; }
  bool peer_done() const { return peer_done_.load(std::memory_order_acquire); }
  bool has_macs() const { return macs_.has_value(); }
  bool closed() const { return closed_; }  // the peer said goodbye and hung up

 private:
  struct Outgoing {
    WireHeader header;
    const uint8_t* body;
  };
  struct Tags {  // of a message in the queue
    base::StreamMac::Tag head, part;
    uint32_t made = 0;  // so many, the header's first; `part` is the last part's
  };
  struct Batch;  // of one send call
  void gather(uint32_t out, uint32_t in, Batch& batch);
  Status gather_with_tags(uint32_t out, uint32_t in, Batch& batch);
  size_t wire_bytes(const WireHeader& header) const;
  Status parse();
  Status check(ByteView record);
  void begin_part();
  Status begin_message();
  struct Read {
    size_t got = 0;
    bool emptied = false;  // the socket had less than was asked for
  };
  Result<Read> read_more();
  Result<bool> fail_sending(Error error);

  static constexpr size_t kBuffer = 16384;
  int index_;
  base::Fd fd_;
  LaneOwner* owner_;

  std::vector<Outgoing> queue_;  // a ring; single producer, single consumer
  std::atomic<uint32_t> in_{0}, out_{0};
  size_t front_done_ = 0;  // bytes of the front message that the socket took

  std::optional<LaneMacs> macs_;
  std::vector<Tags> tags_;  // with MACs, by place in the queue
  const size_t head_;       // bytes of a header as it travels

  std::vector<uint8_t> buffer_;
  size_t begin_ = 0, end_ = 0;
  WireHeader header_{};
  uint8_t* body_ = nullptr;
  size_t body_left_ = 0;         // of this part
  size_t part_ = 0, later_ = 0;  // bytes of this part, of those after it
  bool in_body_ = false;
  bool held_ = false;  // a header in the buffer whose message is not taken yet
  bool closed_ = false;
  int goodbyes_left_ = 1;
  std::atomic<bool> peer_done_{false};  // all its ends said goodbye
};

}  // namespace collctl::transport
