// Parts that both ends of an IB connection share (sender.h and receiver.h are the ends): the ports
// it uses (rails), its queue pairs (lanes), completions, the TCP connection beside it, and failure
// handling.
//
// How a message travels: the receiver writes an entry for each receive it has posted into the
// sender's memory (clear to send), several at a time, the last write with an immediate. Only then
// does the sender write the message to where the entry says, announced by an immediate
// (immediate.h): with the data, or separately where packets may overtake each other. Message n
// takes lane n % lanes, or a part of it goes on each.
//
// Threads: one at a time (the driver). Owns everything but the memory that is registered.
#pragma once
#include <functional>
#include <optional>

#include "transport/net/ib/control.h"
#include "transport/net/ib/errors.h"
#include "transport/net/ib/immediate.h"
#include "transport/net/ib/memory.h"
#include "transport/net/ib/queue_pair.h"
#include "transport/net/net.h"
#include "transport/net/ring_place.h"

namespace collctl::transport {

// One clear-to-send entry, as the receiver writes it into the sender's memory.
struct ClearToSend {
  uint64_t address;  // where the message goes
  uint32_t bytes;    // that there is room for
  uint32_t number;   // of the message, plus one: low bits
  uint32_t keys[kIbMaxRails];
};
static_assert(sizeof(ClearToSend) == 32);  // several at a time go inline

// One port of a connection, with what belongs to its device.
struct IbRail {
  IbPort* port = nullptr;
  IbCompletions completions;
};

struct IbLane {
  IbQueuePair qp;
  size_t rail = 0;          // here
  size_t peer_rail = 0;     // there
  uint32_t sends = 0;       // requests that the send queue holds
  uint32_t room = 0;        // of them: can be posted
  uint32_t unreported = 0;  // of them: posted, and their end told by a later one
  uint32_t inline_bytes = 0;
  uint32_t receive_batch = 1;  // that are posted with one call; one less may be missing
  uint32_t receives_due = 0;   // taken and not yet replaced
  uint32_t write_bytes = 0;    // send end: of one write at most
  uint32_t large_bytes = 0;    // send end: messages above are announced apart from their data
  bool alive = true;
  bool drained = false;  // dead: what has arrived by it was taken
  int64_t lost_ns = 0;   // dead: since when
  IbLaneName name;
};

// Results of set-up, handed to the connection.
struct IbParts {
  NetEnd end;
  IbSettings settings;
  std::shared_ptr<IbDevices> devices;
  std::vector<IbRail> rails;  // before lanes, so that queues outlive queue pairs
  std::vector<IbLane> lanes;
  base::Mapping clear_entries;  // send end: the peer writes there
  IbMemory clear_memory;        // its registration; receive end: of the entries to write
  uint64_t peer_clear_address = 0;
  std::vector<uint32_t> peer_clear_keys;  // by the peer's rail
  bool split = false, failover = false;
  DevicePointer device;  // of this rank; null for a CPU rank
};

// How a request's completion is told apart: by what it was, how many requests it sets free, and the
// message.
enum class IbWork : uint8_t { data = 1, clear = 2, flush = 3, receive = 4, read = 5, signal = 6 };
struct IbWorkId {
  IbWork work{};
  uint32_t cost = 0;  // below 4096
  int stream = 0;
  uint64_t number = 0;  // low 40 bits
};
uint64_t encode(const IbWorkId& id);
IbWorkId decode_work(uint64_t id);

class IbConnection : public NetConnection {
 public:
  IbConnection(IbParts parts, base::Fd control);
  ~IbConnection() override;

  const std::string& via() const override { return via_; }
  Result<uint64_t> register_memory(void* address, size_t bytes) override;
  Result<uint64_t> register_device_memory(void* address, size_t bytes, bool in_order,
                                          std::string& how) override;
  bool may_reach_devices() const override { return parts_.device != nullptr; }
  Result<bool> progress() override;
  void add_interest(std::vector<pollfd>& fds) override;
  bool arm() override;
  void disarm() override;
  bool idle() const override { return !control_.sending(); }
  void attach_bell(int fd) override;
  void say_goodbye() override { control_.push(IbControlKind::goodbye); }
  bool delivered() const override { return control_.delivered(); }

 protected:
  // A request of this end succeeded; `lane` is where.
  virtual Status completed(IbLane& lane, const IbWorkId& id) = 0;
  // A message's announcement, or news of clear-to-send entries, has arrived.
  virtual Status announced(IbLane& lane, uint32_t immediate) = 0;
  // Posts whatever is due now; `moved` becomes true when something was posted.
  virtual Status post_waiting(bool& moved) = 0;
  virtual std::string work_text(const IbWorkId& id) const = 0;
  // With failover: lanes have just died; the error when the connection cannot continue without.
  virtual Status lanes_died(const Error& why) = 0;
  virtual Status heard(const IbMessage& message) = 0;

  size_t lanes_alive() const;
  // It is dead from now on; what has arrived by it is still taken, until it is drained.
  Status fail_lane(IbLane& lane);
  // The peer's dead lanes are dead here as well; how many were alive.
  Result<int> bury(uint64_t dead);
  bool draining() const { return draining_ != 0; }
  uint32_t key(uint64_t memory, size_t rail) const {
    return memories_[size_t(memory) - 1].local_key(rail);
  }
  Status post(IbLane& lane, base::drivers::VerbsSendWork* first, uint32_t count);

  IbParts parts_;
  IbControl control_;
  ImmediateFormat format_;
  std::vector<IbMemory> memories_;  // registration id - 1

 private:
  Status take_completions(bool& moved);
  Error adapter_gone(const IbRail& rail, Error error) const;
  Status take(IbRail& rail, const base::drivers::VerbsCompletion& completion);
  Status on_arrival(IbLane& lane, const base::drivers::VerbsCompletion& completion);
  Status take_last(IbLane& lane, const base::drivers::VerbsCompletion& completion);
  void drain_no_longer(int64_t empty_ns);
  Status failed_work(IbLane& lane, const base::drivers::VerbsCompletion& completion);
  Status look_at_ports();
  Status lose_lanes(const std::function<bool(const IbLane&)>& these, Error why);
  Status step(bool& moved);
  bool try_step();
  Error told_by_peer(const IbMessage& message);
  Status control_step(bool& moved);

  std::string via_;
  uint32_t seen_events_ = 0;
  bool port_down_ = false;
  uint32_t rounds_ = 0;
  uint32_t draining_ = 0;  // lanes
  int bell_fd_ = -1;
  std::optional<Error> error_;
  bool told_ = false;  // the peer failed first, and said so
};

}  // namespace collctl::transport
