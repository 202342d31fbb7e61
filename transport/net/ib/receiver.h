// The receive end of an IB connection (connection.h). It tells the sender of posted receives
// several at a time: half a window, as the sender still has the other half.
//
// Data for GPU memory is read back once through the adapter that wrote it (flush) before the
// message counts as received, where the GPU needs that: a queue pair of each port, connected to
// itself, reads one byte, and its answer is ordered behind all that was written before.
#pragma once
#include <array>

#include "transport/net/ib/connection.h"

namespace collctl::transport {

class IbReceiver : public IbConnection {
 public:
  static constexpr uint32_t kFlushRoom = 64;  // reads in flight, each flusher
  // `flushers`: connected to themselves, one for each rail; empty where nothing needs to be
  // flushed.
  IbReceiver(IbParts parts, std::vector<IbQueuePair> flushers, base::Mapping flush_target,
             IbMemory flush_memory, base::Fd control);
  Result<uint64_t> register_device_memory(void* address, size_t bytes, bool in_order,
                                          std::string& how) override;
  Result<NetRequest> post_send(int, const void*, uint32_t, uint64_t) override;
  Result<NetRequest> post_recv(int stream, void* data, uint32_t capacity, uint64_t memory) override;
  Result<NetDone> test(NetRequest request) override;

 private:
  struct Message {
    uint8_t* data = nullptr;
    uint64_t memory = 0;
    uint32_t bytes = 0;
    uint64_t came_by = 0;   // lanes whose part has arrived, a bit each
    uint32_t flushing = 0;  // reads in flight
    bool complete = false;  // every part is here
    bool done() const { return complete && flushing == 0; }
  };
  struct Stream {
    NetStream limits;
    std::vector<Message> messages;   // by number % window
    ClearToSend* entries = nullptr;  // by number % window; to be written to the peer
    uint64_t posted = 0, tested = 0;
    uint64_t told = 0;     // receives whose entries are in flight, or there
    uint64_t allowed = 0;  // that the sender may know of
    uint32_t place(uint64_t number) const { return ring_place(number, limits.window); }
    Message& message(uint64_t number) { return messages[place(number)]; }
  };

  Status completed(IbLane& lane, const IbWorkId& id) override;
  Status announced(IbLane& lane, uint32_t immediate) override;
  Status post_waiting(bool& moved) override;
  std::string work_text(const IbWorkId& id) const override;
  Status lanes_died(const Error& why) override;
  Status heard(const IbMessage& message) override;

  Status tell(int stream, bool& moved);
  Status flush_stream(int stream, uint64_t number);
  void answer_moving();

  std::array<Stream, kernels::kProtocolCount> streams_;
  std::vector<IbQueuePair> flushers_;
  base::Mapping flush_target_;
  IbMemory flush_memory_;
  std::vector<uint32_t> flush_room_;  // of each flusher
  std::vector<std::pair<int, uint64_t>> flush_waiting_;
  std::vector<uint64_t> device_memories_;
  uint32_t asked_round_ = 0;  // of a question that is to be answered; 0: none
};

}  // namespace collctl::transport
