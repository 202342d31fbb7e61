// RDMA writes, reads and signals from this rank to one other, and the signals that arrive from it.
// Made, driven and owned by IbOneSided (one_sided.h), which describes the whole.
//
// Order: only what an immediate announces is ordered behind the writes before it, because packets
// of writes may overtake each other. So a signal is an immediate, and writes that are not awaited
// share its queue pair. Nothing here waits: false and null mean that there is no room now. Threads:
// one at a time. Errors: code lost, of the whole link; from then on nothing of it touches memory
// here.
//
// With COLLCTL_IB_PORT_FAILOVER queue pairs may die while others live (failover.cc): what
// was in flight on them goes again by another, signals exactly once and behind what they announce.
#pragma once
#include <array>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "transport/net/ib/connection.h"

namespace collctl::transport {

// A port, with its completions: of this rank's requests, and of what others did here.
// Separate, because the requester waits for the first, and the service for the second.
struct IbOneSidedRail {
  IbPort* port = nullptr;
  IbCompletions asked, arrivals;
};

// A peer's report of one of its windows.
struct IbRemoteWindow {
  uint64_t address = 0, bytes = 0;
  std::vector<uint32_t> keys;  // by the peer's port; empty: not for RDMA
  std::string why;             // then
};

class IbOneSidedLink {
 public:
  static constexpr uint32_t kSlots = 16;          // moves in flight that are told apart
  static constexpr uint32_t kSends = 4 * kSlots;  // requests of a queue pair
  static constexpr uint32_t kReceives = 128;      // signals that may arrive at once
  using OnSignal = std::function<void(int rank, int signal, uint32_t times)>;

  // The link's ports are rails[uses[i]]; rails outlive it.
  struct Options {
    LinkSpec spec;
    IbSettings settings;
    std::span<IbOneSidedRail> rails;
    std::vector<size_t> uses;
    int signals = 0;     // numbers that a signal may have
    bool flush = false;  // memory of windows here shows writes only after a read
    OnSignal on_signal;
  };
  explicit IbOneSidedLink(Options options) : o_(std::move(options)) {}
  // In this order. Queue pairs with receives; what the peer is told; and the path to it.
  Status make();
  Bytes describe() const;
  Status connect(ByteView bytes, Deadline deadline);
  // Both ends are connected: from now on it works, until the peer is gone.
  void adopt(base::Fd control) { control_.emplace(std::move(control)); }

  // Rail and number of each.
  std::vector<std::pair<size_t, uint32_t>> queue_pairs() const;

  int rank() const { return o_.spec.peer.rank; }
  const std::string& name() const { return name_; }  // "rank 3 (host b)"
  const LinkSpec& spec() const { return o_.spec; }
  // "NET/IB/0"
  std::string via() const;
  uint32_t inline_bytes() const { return lanes_[0].inline_bytes; }
  uint32_t most_bytes() const;  // of one move
  // Pieces that a move of so many bytes is cut into, for all queue pairs to carry a part of it.
  uint32_t split() const { return o_.settings.split ? uint32_t(lanes_.size()) : 1; }
  // Writes to the peer must be read back before a signal may announce them.
  bool flushes() const { return peer_flushes_; }

  // --- moves ---
  struct Move {
    uint8_t* local = nullptr;
    const IbMemory* memory = nullptr;  // that local lies in; null: taken with the request (inline)
    uint64_t offset = 0;               // in the peer's window
    uint32_t bytes = 0;
    uint32_t slot = 0;  // pending() until it is over; unused where it is inline
    int signal = -1;    // raised behind it; writes only
  };
  Result<bool> write(const IbRemoteWindow& window, const Move& move);
  Result<bool> read(const IbRemoteWindow& window, const Move& move);
  bool pending(uint32_t slot) const { return pending_[slot] != 0; }
  bool any_pending() const;
  // Never waits: what has no room now follows later, as one signal with a count.
  Status signal(int signal);
  bool owes_signals() const;
  // Ports have died, and the ends have not yet told each other what had arrived by them.
  bool moving() const;
  // While it moves, and after news that arrived while this end spoke: to be called again and again.
  bool restless() const { return moving() || unheard_; }
  // Queues were found empty after the time given, or were not (0).
  void look_after_moving(int64_t empty_ns);
  bool fails_over() const { return failover_; }
  // Something was written since the last read behind it.
  bool unread() const;
  uint32_t writes_under_way() const { return writes_; }
  bool busy() const { return writes_ != 0 || signals_ != 0 || owes_signals() || any_pending(); }
  // Reads back a byte by each queue pair that has written, into slot 0.
  Result<bool> read_back(uint8_t* local, const IbMemory& memory);

  // --- windows ---
  // To the peer, at the end of a round in which windows were shared; its rounds that have arrived.
  struct LocalWindow {
    uint64_t number = 0, address = 0, bytes = 0;
    const IbMemory* memory = nullptr;  // null: not for RDMA
    std::string why;
  };
  void tell_windows(std::span<const LocalWindow> windows);
  uint64_t rounds() const { return rounds_; }
  const IbRemoteWindow* window(uint64_t number) const;
  // One of the peer's windows that are not for RDMA, and why; empty: there is none.
  std::string refused_window() const;
  void forget(uint64_t number) { windows_.erase(number); }

  // --- what happens ---
  // A completion of one of this link's queue pairs.
  void take(size_t rail, const base::drivers::VerbsCompletion& completion);
  void look_at_ports(bool& down);
  // The adapter's queue no longer responds. True: this was not known before.
  bool rail_gone(size_t rail, const Error& why);
  void look_at_control();
  int control_fd() const { return control_ && !control_->closed() ? control_->fd() : -1; }
  bool control_sending() const { return control_ && control_->sending(); }
  void say_goodbye();
  bool delivered() const { return !control_ || error_.has_value() || control_->delivered(); }
  bool left() const { return control_ && control_->peer_done(); }  // the peer said goodbye
  void fail(Error why);
  const std::optional<Error>& error() const { return error_; }

 private:
  // The immediate: a signal above how many times.
  static constexpr uint32_t kTimesBits = 24, kMostTimes = (1u << kTimesBits) - 1;
  // A peer's window as requests name it, and a request as it was posted, to be posted again.
  struct Target {
    uint64_t address = 0;
    std::array<uint32_t, kIbMaxRails> keys{};  // by the peer's port
  };
  struct Request {
    IbWork work{};
    bool announces = false;  // an immediate is sent with it
    Target target;
    Move move;
    uint32_t times = 0;              // signals
    std::array<uint8_t, 64> data{};  // where it went inline
  };
  struct Lane {
    IbQueuePair qp;
    size_t rail = 0, own = 0, peer = 0;  // of the hub, of this link, of the peer
    uint32_t room = 0, inline_bytes = 0, receives_due = 0, receive_batch = 1;
    uint32_t write_bytes = 0, large_bytes = 0;  // as in IbLane
    uint64_t unread_at = 0;                     // 0: nothing
    uint32_t unread_key = 0;
    IbLaneName name;
    // With failover.
    bool alive = true;     // this end has not failed
    bool drained = false;  // nothing arrives by it any more
    bool settled = false;  // the peer's end has failed and has said what had arrived
    int64_t lost_ns = 0;
    uint64_t announced = 0;  // immediates posted
    uint64_t arrived = 0;    // that have arrived here
    std::deque<Request> posted;
  };
  Status make_lane(size_t own);
  Status take_good(Lane& lane, const IbWorkId& id,
                   const base::drivers::VerbsCompletion& completion);
  Status on_arrival(Lane& lane, uint32_t immediate);
  Status hear(const IbMessage& message);
  Status hear_windows(const IbMessage& message);
  void tell_failure();
  bool unsettled() const;
  Status hear_lanes_lost(const IbMessage& message);
  Lane& signal_lane();
  Lane& next_lane();
  // Ordered requests must wait until the lost ones have been posted again.
  bool held_back() const { return unsettled() || !again_.empty(); }
  void lose(const std::function<bool(const Lane&)>& these, Error why);
  void take_last(Lane& lane, const base::drivers::VerbsCompletion& completion);
  void tell_drained(Lane& lane);
  void settle(Lane& lane, uint64_t arrived);
  void finish(const Request& request);
  void post_waiting();
  void post_owed();
  Result<bool> post_again(const Request& request);
  Result<bool> post_write(const Target& target, const Move& move, const uint8_t* data);
  Result<bool> post_read(const Target& target, const Move& move);
  Result<bool> post_signal(int signal, uint32_t times);
  Result<bool> post(Lane& lane, base::drivers::VerbsSendWork* first, uint32_t count,
                    const Request& request);
  std::string work_text(const IbWorkId& id) const;

  Options o_;
  std::string name_;
  std::vector<Lane> lanes_;
  size_t peer_rails_ = 0, turn_ = 0;
  bool peer_flushes_ = false, failover_ = false;
  std::optional<IbControl> control_;
  std::array<uint8_t, kSlots> pending_{};
  uint32_t writes_ = 0, signals_ = 0;  // in flight
  std::map<int, uint64_t> owed_;       // signals to raise, by number
  std::deque<Request> again_;          // of dead queue pairs, in their order
  std::map<uint64_t, IbRemoteWindow> windows_;
  uint64_t rounds_ = 0;
  std::string why_;  // of the peer's windows that are not for RDMA, the last one given
  std::optional<Error> error_;
  bool told_ = false;     // the peer failed first, and said so
  bool unheard_ = false;  // messages may have arrived that have not been read yet
};

}  // namespace collctl::transport
