// One end of a connection by a plugin (half.h). A message is one isend or irecv of its
// stream's line; the oldest request of a stream is the one that is asked about, since they are
// done in order.
//
// Some plugins (FastSocket) do not say how many bytes have arrived. The receive end tells by its
// first message whether its plugin does; until it has, the send end posts no more than it
// remembers the sizes of, and where it does not, the send end says the sizes over the TCP
// connection beside the plugin's.
//
// The end: a receive end always has receives posted for which no data will arrive. It says how
// many, and the send end fills them with empty messages, so that finally a plugin holds no request
// and its memory can be freed. If it still holds one for which it reported neither success nor
// failure nothing is freed, and what was registered stays (let_go()).
#pragma once
#include <deque>
#include <optional>

#include "transport/net/ib/control.h"
#include "transport/net/plugin/lines.h"
#include "transport/net/plugin/timer.h"

namespace collctl::transport {

// Results of set-up, handed to the connection.
struct PluginParts {
  NetEnd end;
  PluginLines lines;
  base::Fd control;
  std::shared_ptr<Device> device;  // null for a CPU rank
  bool flush = false;              // after what was received into the GPU's memory
  bool dmabuf = false;             // may be asked for
};

class PluginConnection : public NetConnection {
 public:
  static Result<std::unique_ptr<NetConnection>> make(PluginParts parts);
  ~PluginConnection() override;

  const std::string& via() const override { return via_; }
  Result<uint64_t> register_memory(void* address, size_t bytes) override;
  Result<uint64_t> register_device_memory(void* address, size_t bytes, bool in_order,
                                          std::string& how) override;
  bool may_reach_devices() const override;
  Result<NetRequest> post_send(int stream, const void* data, uint32_t bytes,
                               uint64_t memory) override;
  Result<NetRequest> post_recv(int stream, void* data, uint32_t capacity, uint64_t memory) override;
  Result<NetDone> test(NetRequest request) override;
  Result<bool> progress() override;
  void add_interest(std::vector<pollfd>& fds) override;
  bool arm() override;
  void disarm() override;
  bool idle() const override { return !control_.sending(); }
  void attach_bell(int) override {}
  void say_goodbye() override;
  bool delivered() const override;
  bool let_go() override;

 private:
  struct Message {
    void* request = nullptr;
    void* data = nullptr;
    uint32_t bytes = 0;  // sent, or room for; then what has arrived
    uint64_t memory = 0;
    bool flushing = false;
    bool done = false;
    bool failed = false;   // and the plugin has said so
    bool unsized = false;  // it has arrived, and its size is not known yet
  };
  struct Stream {
    std::vector<Message> messages;  // a ring
    uint64_t posted = 0, tested = 0;
    bool refused = false;       // the last post: not now
    std::deque<uint32_t> told;  // receive end: sizes by the send end, from message `tested` on
    bool full() const { return posted - tested == messages.size(); }
    bool waits() const { return posted != tested; }
  };
  struct Memory {
    std::array<void*, kernels::kProtocolCount> handles{};  // by stream
    std::array<bool, kernels::kProtocolCount> held{};
    void* address = nullptr;
    bool on_device = false;
  };

  PluginConnection(PluginParts parts, PluginTimer timer);
  const NetPluginCalls& calls() const { return parts_.lines.calls(); }
  bool sends() const { return parts_.end.spec.direction == Direction::send; }
  template <class Register>
  Result<uint64_t> add_memory(const Memory& memory, const char* call, Register with);
  void release(Memory& memory);
  Status broken(const char* call, int code);
  NetRequest enter(int stream, const Message& message);
  Result<NetRequest> begin_send(int stream, const Message& message);
  Result<bool> look(int stream);
  bool given_back(Message& message) const;
  Status received(int stream, Message& message, int bytes);
  Result<bool> find_size(int stream, int bytes);
  void tell_sizes(int stream, uint64_t from);
  Status hear_sizes(ByteReader& body);
  Status unexpected() const;
  // Send end: no more may be posted before the receive end has said whether it wants sizes.
  bool awaits_answer(const Stream& stream) const {
    return sizes_ == Sizes::unknown && stream.posted == stream.messages.size();
  }
  Status hear(const IbMessage& message);
  Status settle();
  bool settled() const;

  PluginParts parts_;
  IbControl control_;
  std::string via_;
  PluginTimer timer_;
  Stream streams_[kernels::kProtocolCount];
  std::vector<Memory> memories_;  // number n + 1
  uint32_t rounds_ = 0;
  // The source of the number of bytes that arrived: not known yet, the plugin, the send end.
  enum class Sizes : uint8_t { unknown, by_plugin, by_peer };
  Sizes sizes_ = Sizes::unknown;
  bool over_ = false;  // the peer has said goodbye and is gone
  bool leaving_ = false;
  std::optional<bool> let_go_;                  // the answer, when it was asked for
  Deadline settle_until_ = Deadline::at_ns(0);  // when leaving
  // Send end: of each stream, what the peer has posted in all; unknown until it says goodbye.
  std::optional<std::array<uint64_t, kernels::kProtocolCount>> peer_posted_;
  std::optional<Error> error_;
};

}  // namespace collctl::transport
