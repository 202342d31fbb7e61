// A link over a network: slots are staged in host memory at each end, or in the GPU's where the
// network reaches that, and moved by progress(). The send end posts every slot the block published;
// the receive end posts every free slot, and announces what arrived (Simple: tail; LL: whole lines
// with this end's flags, the wire carries data only). LL128's lines go from GPU memory to GPU
// memory as they are, and the receiving kernel takes them as they arrive: only networks that write
// such memory in order carry it. Where the connection can, Simple's data is sent out of the rank's
// own memory and received there (fifo.h: Lent, Place). Made by net_transport. Threads: as
// transport.h, progress by one driver. Owns its slots and its connection.
#pragma once
#include <atomic>

#include "base/fd.h"
#include "transport/device/device.h"
#include "transport/memory/fifo_memory.h"
#include "transport/net/net.h"
#include "transport/net/relay.h"
#include "transport/net/ring_place.h"

namespace collctl::transport {

class NetLink : public Link {
 public:
  NetLink(const LinkSpec& spec, std::unique_ptr<NetConnection> connection)
      : spec_(spec), via_(connection->via()), connection_(std::move(connection)) {}
  ~NetLink() override;
  Status prepare(const Services& services);

  kernels::Fifo* fifo(kernels::Protocol protocol) override {
    Stage& stage = stages_[size_t(protocol)];
    return stage.fifo.slots != nullptr ? &stage.fifo : nullptr;
  }
  const std::string& via() const override { return via_; }
  std::string nic() const override { return connection_->nic(); }
  std::string condition() const override { return connection_->condition(); }
  double unacknowledged_s() const override { return connection_->unacknowledged_s(); }
  std::string why() const override { return why_; }
  uint64_t device_bytes() const override { return device_memory().held_bytes(); }
  bool needs_progress() const override { return true; }
  Result<Progress> progress(const kernels::Fifo* awaited) override;
  Result<Progress> flush() override;
  void add_interest(std::vector<pollfd>& fds) override;
  bool arm() override;
  void disarm() override;
  uint64_t carrying_ns() const override { return carried_ns_.load(std::memory_order_relaxed); }
  bool drained() const override;
  void attach_bell(int fd) override;
  void join(Link& sends) override;
  void take_back() override;
  void say_goodbye() override { connection_->say_goodbye(); }

 private:
  // One protocol: the fifo whose other side is a block, and the state of its slots.
  struct Stage {
    kernels::Fifo fifo{};
    std::vector<NetRequest> requests;  // by slot
    uint64_t posted = 0;               // steps given to the network
    uint64_t done = 0;                 // steps the network is done with
    uint64_t seen = 0;                 // the limit of posted at the last look
    uint32_t packed = 0;               // send, LL: lines of step `posted` that lie in `staging`
    uint64_t lent = 0;                 // send: behind the last posted step that lies with the rank
    uint64_t memory = 0;               // registration
    uint8_t* staging = nullptr;        // LL: packed data, by slot, as the wire has it
    std::vector<kernels::Place> places;  // receive, Simple: by slot, where that can be elsewhere
    uint64_t placed = 0;                 // steps whose place the network knows, or that have none
    bool is_ll() const { return fifo.protocol == kernels::Protocol::ll; }
    uint32_t line_bytes() const {
      return is_ll() ? 16 : fifo.protocol == kernels::Protocol::ll128 ? 128 : 1;
    }
    uint32_t index(uint64_t step) const { return ring_place(step, fifo.slot_count); }
    uint8_t* slot(uint64_t step) const {
      return fifo.slots + size_t(index(step)) * fifo.slot_bytes;
    }
    uint8_t* packed_slot(uint64_t step) const {
      return staging + size_t(index(step)) * (fifo.slot_bytes / 2);
    }
  };

  const DeviceMemory& device_memory() const {
    return spec_.relay != nullptr ? spec_.relay->slots() : device_memory_;
  }
  Status register_relays_slots();
  Status register_simple();
  Result<std::string> register_on_device(kernels::Protocol protocol);
  void try_device_slots(const Services& services);
  Result<void*> make_block(const Services& services, FifoLayout& layout);
  Status make_stage(kernels::Protocol protocol, void* block, const FifoLayout& layout);
  Status make_staging(Stage& stage);
  bool sending() const { return spec_.direction == Direction::send; }
  Status post(Stage& stage, bool& moved);
  static Status check_claim(const Stage& stage, uint32_t bytes);  // of step `posted`
  Result<NetRequest> post_send(Stage& stage);
  Result<NetRequest> post_lines(Stage& stage);
  Result<NetRequest> post_recv(Stage& stage);
  void pass_on_places(Stage& stage);
  Status complete(Stage& stage, bool& moved);
  Status announce(Stage& stage, const NetDone& arrived);
  Result<Progress> move_by(Result<bool> (NetConnection::*carry)());
  Status move(Result<bool> (NetConnection::*carry)(), bool& moved);
  // An operation that failed has taken back what was not sent; from then on nothing goes out: its
  // memory may hold something else.
  bool withdrawn();
  void count_time();
  uint64_t limit(const Stage& stage) const;  // steps that may be posted now

  LinkSpec spec_;
  std::string via_, why_;
  base::Mapping memory_, staging_;
  PinnedMemory pinned_;         // in place of memory_ for a GPU
  DeviceMemory device_memory_;  // with the slots on_device_, where the network reaches it
  DeviceSlots on_device_;
  Stage stages_[kernels::kProtocolCount];
  std::vector<Stage*> used_;  // of them
  bool withdrawn_ = false, taken_back_ = false;
  // With Services::timed: the last look, and whether there was something to carry then.
  bool timed_ = false, carries_ = false;
  int64_t looked_ns_ = 0;
  std::atomic<uint64_t> carried_ns_{0};
  std::unique_ptr<NetConnection> connection_;  // last: its helpers end before the memory goes
};

}  // namespace collctl::transport
