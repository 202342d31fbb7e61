// One path from a NIC of one host to a NIC of another: a connection of the NET transport between
// just these two, a few small messages to see that it carries anything, and a stream of large ones
// for its bandwidth. Both ends hold a RailPath; what they tell each other goes over the bootstrap
// (pair.h).
//
// Threads: describe() on the one that sets up; reach() may run beside others', each path on a
// thread of its own; stream() and leave() again on one. Every wait ends by its deadline.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "cmd/rails/nics.h"
#include "transport/net/net.h"
#include "transport/table/nets.h"

namespace collctl::runtime {

enum class RailEnd : uint8_t {
  ok,
  unlike,       // one port is InfiniBand, the other Ethernet
  no_address,   // no GID of one matches one of the other
  unreachable,  // refused, or no route
  silent,       // nothing arrived before the deadline
  large_lost,   // small messages arrive, large ones do not
  failed,       // the network reported an error
  bad_data      // other bytes than were sent
};
inline constexpr int kRailEndCount = 8;

// For a path on which nothing arrives: whether what the sending host sends does not arrive, or what
// it is answered. `beside`: of RDMA ports, which connect by TCP between their hosts' addresses:
// that did not come about, so of the ports nothing is known.
enum class RailLost : uint8_t { unknown, there, back, beside };
inline constexpr int kRailLostCount = 4;

struct RailResult {
  RailEnd end = RailEnd::silent;
  double GBps = 0;                 // 1e9 bytes per second, as the receiver saw it
  double resent = -1;              // share of packets sent again; below 0: not known
  double first_us = 0;             // what the first small message took, at the sender
  int from_gid = -1, to_gid = -1;  // entries of the ports' tables; -1: none is used
  std::string gid_type = {};       // of the sender: "RoCE v2"
  std::string text = {};           // when not ok: the reason
  RailLost lost = RailLost::unknown;
};
inline constexpr size_t kMostRailText = 8192;  // of a result, or why a host was busy
void fields(base::Record& io, RailResult& result);

// Kind of failure that an error of the network is.
RailEnd rail_end_of(const Error& error, RailEnd when_late);

// Judgement by two ports' facts before anything is sent: unlike or no_address, else ok with the
// GIDs that the two ends use. Pure.
RailResult judge_rail(const RailNic& from, const RailNic& to, int roce_version);

// The memory that all paths of a rank send from and receive into.
struct RailMemory {
  uint8_t* data = nullptr;
  uint32_t message_bytes = 0;
};

class RailPath {
 public:
  static constexpr uint32_t kWindow = 4, kSmallBytes = 64;
  // Bytes of RailMemory.
  static size_t memory_bytes(uint32_t message_bytes) { return size_t(kWindow) * message_bytes; }
  RailPath(const transport::NetEnd& end, const transport::Services& services, bool rdma,
           const RailMemory& memory, uint32_t number);
  ~RailPath();

  // Errors are kept; the blob is empty then.
  Bytes describe(Deadline deadline);
  // With the peer's blob: connects, and moves a few small messages. Errors are kept.
  void reach(ByteView peer_blob, Deadline deadline);
  // Large messages for about `seconds`, at least a window; the receive end until they end.
  void stream(double seconds, Deadline deadline);
  // Says goodbye; true when the peer has it.
  bool leave(Deadline deadline);

  bool good() const { return !error_; }
  bool connected() const { return connection_ != nullptr; }
  // The connection that it goes over, for other messages than its own; null: not connected.
  transport::NetConnection* connection() { return connection_.get(); }
  // The protocol whose stream those use, kWindow at once.
  static constexpr int kStream = int(kernels::Protocol::simple);
  // As this end sees it; a failure has its kind and words.
  RailResult result() const;

 private:
  bool sends() const { return end_.spec.direction == transport::Direction::send; }
  void fail(RailEnd kind, const Error& error);
  Status ping(Deadline deadline);
  Status stream_out(double seconds, Deadline deadline);
  Status stream_in(Deadline deadline);
  Result<transport::NetDone> finish(transport::NetRequest request, Deadline deadline);
  Result<transport::NetRequest> post(uint8_t* data, uint32_t bytes, uint64_t memory,
                                     Deadline deadline);
  Status wait_a_little(Deadline deadline);
  uint8_t pattern(uint32_t slot, size_t at) const;

  transport::NetEnd end_;
  transport::Services services_;
  bool rdma_;
  RailMemory memory_;
  uint32_t number_;
  std::unique_ptr<transport::NetHalf> half_;
  std::unique_ptr<transport::NetConnection> connection_;
  std::optional<RailEnd> error_;
  std::string words_;
  alignas(64) uint8_t small_[kWindow * kSmallBytes] = {};
  double GBps_ = 0, first_us_ = 0, resent_ = -1;
  RailLost lost_ = RailLost::unknown;
};

}  // namespace collctl::runtime
