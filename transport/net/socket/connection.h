// A network connection over TCP: one or several sockets (lanes), message n of a stream travels
// whole on lane n % lanes. The receive end tells on lane 0 how many receives it posted again
// (credit, told for half a window at once), so the send end never has more messages in flight than
// there are receives for. Made by socket.h.
//
// Two connections of a pair of ranks, one each way, may join: both use the socket of that whose
// sender has the lower rank. Then what goes one way acknowledges what came the other way, and no
// packets do just that (two processes that only exchange 8 bytes: 4.0 us, by two sockets 5.7).
//
// Without helper threads progress() moves the bytes. With helpers each serves its share of the
// lanes while messages are larger than kMostServed, and progress() the others; helpers ring
// the engine's bell when the driver sleeps.
#pragma once
#include <array>
#include <memory>
#include <mutex>
#include <optional>

#include "transport/net/net.h"
#include "transport/net/socket/lane.h"

namespace collctl::transport {

class LaneHelper;
class JoinedLane;

// Where this end of a connection is.
struct SocketPlace {
  int index = 0;          // of the interface among those that sockets use
  std::string interface;  // its name; empty: not known
  std::string peer;       // the other end, in errors
  std::string way = {};   // with MACs: from there to this end, in errors
};

class SocketConnection : public NetConnection, private LaneOwner {
 public:
  // `sockets` are authenticated and non-blocking.
  // Helpers share the lanes among them; none: progress() does it. `macs`: of each socket, or none.
  // `joins`: both ends want that; then it has one socket, no helpers and no MACs.
  SocketConnection(const NetEnd& end, std::vector<base::Fd> sockets, std::vector<LaneMacs> macs,
                   std::vector<std::unique_ptr<LaneHelper>> helpers, SocketPlace place, bool joins);
  ~SocketConnection() override;

  const std::string& via() const override { return via_; }
  std::string nic() const override { return place_.interface; }
  std::string condition() const override;
  double unacknowledged_s() const override;
  Result<uint64_t> register_memory(void* address, size_t bytes) override;
  // The kernel reads it, and says so where it is gone. Tags are made from it here, and what came is
  // checked before it counts. And helpers send what was posted whatever becomes of it, and may be
  // receiving already.
  bool uses_any_memory() const override { return helpers_.empty() && !lanes_[0]->has_macs(); }
  void receive_at(NetRequest request, void* data, uint32_t bytes) override;
  Result<NetRequest> post_send(int stream, const void* data, uint32_t bytes,
                               uint64_t memory) override;
  Result<NetRequest> post_recv(int stream, void* data, uint32_t capacity, uint64_t memory) override;
  Result<NetDone> test(NetRequest request) override;
  Result<bool> progress() override;
  Result<bool> progress_unawaited() override;
  bool finishes_alone() const override { return !helpers_.empty(); }
  Result<bool> flush() override;
  void add_interest(std::vector<pollfd>& fds) override;
  bool arm() override;
  void disarm() override;
  double resent() const override;
  bool idle() const override;
  void join(NetConnection& sends) override;
  void attach_bell(int fd) override { bell_fd_.store(fd, std::memory_order_release); }
  void say_goodbye() override;
  bool delivered() const override;

 private:
  friend class LaneHelper;
  struct Slot {
    uint8_t* data = nullptr;
    uint32_t bytes = 0;        // of the message; for a posted receive what fits
    uint8_t* place = nullptr;  // of a receive: where a message of so many bytes is to go instead
    uint32_t place_bytes = 0;
    bool placed = false;  // it goes there
    std::atomic<uint32_t> done{0};
  };
  // A message that came before its receive was posted.
  struct Early {
    std::unique_ptr<uint8_t[]> bytes;
    uint64_t sequence = 0;
    uint32_t size = 0;
    bool waits = false, whole = false;
  };
  struct Stream {
    NetStream limits;
    std::vector<Slot> slots;
    std::atomic<uint64_t> posted{0};  // by the driver
    uint64_t tested = 0;
    std::atomic<uint64_t> credit{0};  // send end: receives posted again, as told by the peer
    std::atomic<uint64_t> told{0};    // receive end: the same, as told to the peer
    bool starved = false;             // the last post_send lacked credit
    std::vector<uint64_t> totals;     // bytes up to and with a message, by its number: see total()
    std::vector<uint64_t> next;       // per lane: the next message to come on it
    std::vector<Early> early;         // by number; under early_mutex_, as what it has altogether
    uint64_t early_bytes = 0;
    std::atomic<uint32_t> early_count{0};
  };

  // Its own socket may be closed at the peer already. An earlier send cancels the join.
  bool awaits_join() const {
    return direction_ == Direction::send && !first_ && joined_ == nullptr && joins_;
  }
  Slot& slot_of(NetRequest request);
  bool takes(const WireHeader& header) override;
  Result<uint8_t*> place(int lane, const WireHeader& header) override;
  void arrived(int lane, const WireHeader& header) override;
  void sent(const WireHeader& header) override;
  Status place_credit(Stream& stream, const WireHeader& header);
  void finish(Stream& stream, uint64_t sequence, uint32_t bytes);
  Result<uint8_t*> keep_early(Stream& stream, const WireHeader& header);
  // Into its place, where that is posted and all of it has come. True: it was early.
  bool settle(Stream& stream, uint64_t sequence, bool whole);
  bool has_credit(const Stream& stream) const;
  // Bytes of the first `messages`: posted ones at a send end, tested ones at a receive end.
  static uint64_t total(const Stream& stream, uint64_t messages);
  static void add_to_total(Stream& stream, uint64_t message, uint32_t bytes);
  bool oldest_done(const Stream& stream) const;
  void tell_credit(int index, Stream& stream);
  Error lost(const Error& cause) const;
  Result<bool> receive_by(int64_t look_ns, bool often);
  Result<bool> pump_lanes(bool all);  // all: what comes in on each, else credits
  Result<bool> pump(int lane, bool with_input);
  void push(int lane, const WireHeader& header, const void* body);
  LaneHelper* helper_of(int lane) const;  // null: it has none
  bool served_by_helper(int lane) const;
  void ring_driver();
  void fail(Error error);  // from a helper, with the peer's name

  Direction direction_;
  SocketPlace place_;
  std::string via_;
  std::array<Stream, kernels::kProtocolCount> streams_;
  std::vector<std::shared_ptr<SocketLane>> lanes_;
  std::shared_ptr<JoinedLane> joined_;
  const bool first_;   // of a pair: the lower rank sends here
  bool joins_;         // both ends want it, and nothing has been posted
  bool news_ = false;  // something of this end was done when the other one moved
  bool said_goodbye_ = false;
  bool look_at_all_ = true;   // read every lane at the next progress
  bool large_comes_ = false;  // one has begun to arrive on a lane that the driver serves
  uint32_t rounds_ = 0;       // since it last read: of a send end, or of one that nobody waits for
  // A receive end's: when something last came, and when it last looked.
  int64_t came_ns_ = 0, looked_ns_ = 0;

  std::atomic<int> bell_fd_{-1};
  std::atomic<uint32_t> driver_sleeps_{0};
  std::atomic<bool> failed_{false};
  std::mutex early_mutex_;
  std::mutex error_mutex_;
  std::optional<Error> error_;
  std::vector<std::unique_ptr<LaneHelper>> helpers_;  // last: joined first
};

}  // namespace collctl::transport
