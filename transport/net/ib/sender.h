// The send end of an IB connection (connection.h). A message waits for its clear-to-send entry; it
// is over when the adapter has every acknowledgement.
#pragma once
#include <array>

#include "transport/net/ib/connection.h"

namespace collctl::transport {

class IbSender : public IbConnection {
 public:
  IbSender(IbParts parts, base::Fd control);
  Result<NetRequest> post_send(int stream, const void* data, uint32_t bytes,
                               uint64_t memory) override;
  Result<NetRequest> post_recv(int stream, void*, uint32_t, uint64_t) override;
  Result<NetDone> test(NetRequest request) override;

  // Bytes of the clear-to-send entries of these streams, and where each stream's begin.
  static size_t clear_bytes(std::span<const NetStream> streams);
  static size_t clear_offset(std::span<const NetStream> streams, int stream);
  // Requests that one message of at most `bytes` takes on a lane.
  static uint32_t works_of(uint32_t bytes, uint32_t max_message_bytes, bool apart);

 private:
  struct Message {
    const uint8_t* data = nullptr;
    uint32_t bytes = 0;
    uint64_t memory = 0;
    ClearToSend clear{};
    uint32_t parts_left = 0;       // 0: over
    const IbLane* lane = nullptr;  // that carries it, or its first part
  };
  struct Stream {
    NetStream limits;
    std::vector<Message> messages;         // by number % window
    const ClearToSend* entries = nullptr;  // by number % window; the peer writes them
    uint64_t posted = 0, tested = 0;
    uint64_t cleared = 0;  // the peer has posted receives for all before
    uint32_t place(uint64_t number) const { return ring_place(number, limits.window); }
    Message& message(uint64_t number) { return messages[place(number)]; }
  };
  struct Part {
    int stream;
    uint64_t number;
    uint32_t offset, bytes;
  };

  Status completed(IbLane& lane, const IbWorkId& id) override;
  Status announced(IbLane& lane, uint32_t immediate) override;
  Status post_waiting(bool& moved) override;
  std::string work_text(const IbWorkId& id) const override;
  Status lanes_died(const Error& why) override;
  Status heard(const IbMessage& message) override;

  Status take_entry(int stream, uint64_t number, Message& message) const;
  static uint32_t works_on(const IbLane& lane, uint32_t bytes);
  void look_at_lanes();
  std::span<IbLane* const> lanes_for(uint64_t number) const;
  Result<bool> start(int stream, uint64_t number);
  Status post_part(IbLane& lane, const Message& message, const Part& part);

  std::array<Stream, kernels::kProtocolCount> streams_;
  std::vector<IbLane*> alive_;  // lanes
  // After lanes died: the round in which the peer is asked what it has; 0: nothing is asked.
  uint32_t moving_round_ = 0, last_round_ = 0;
  std::vector<std::pair<int, uint64_t>> again_;  // messages to be sent again: stream and number
};

}  // namespace collctl::transport
