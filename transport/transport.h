// The one interface of all transports. A transport's only product is a Link: plain Fifo ends that
// any backend can use, and, where the wire needs the host, some progress. The ordered table is
// table/transports.cc: first that can reach wins.
//
// Making a connection, for each (channel, sender, receiver):
//   both ends:  open() -> Endpoint; describe() -> blob   (never waits; may push an fd to the peer)
//   the runtime exchanges the blobs over the bootstrap
//   send end:   connect(receiver's blob) -> Link   (may wait for the peer's describe())
//   recv end:   connect(sender's blob) -> Link     (may wait for the peer's connect())
// The runtime does all describes, then all send connects, then all receive connects, so that no
// order deadlocks. Threads: open/describe/connect on the thread that wires; progress() on one
// driver at a time (the proxy engine guarantees it); Fifo use on the backend's thread. A Link owns
// its memory and must outlive every use of its Fifos.
#pragma once
#include <poll.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/auth.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/result.h"
#include "kernels/contract/fifo.h"
#include "transport/peer.h"

namespace collctl::transport {

class Device;       // transport/device/device.h
class NetPlugin;    // transport/net/plugin/plugin.h
class RelayMemory;  // transport/net/relay.h

enum class Direction : uint8_t { send, recv };

struct FifoGeometry {
  uint32_t slot_bytes = 0;  // 0: this protocol is not wanted on this link
  uint32_t slot_count = 0;
};

// Why a NIC must not read (to send) or write this rank's GPU memory; empty: it may.
// `flush`: the path that what it wrote takes may be overtaken by the word that it is there, so it
// is read back before. Where nobody decided: GPUs of x86 hosts reach their memory by PCIe alone.
struct NicGdr {
#if defined(__x86_64__)
  static constexpr bool kFlushUnplaced = false;
#else
  static constexpr bool kFlushUnplaced = true;
#endif
  std::string no_read, no_write;
  bool flush = kFlushUnplaced;
};

// The topology's choice for one link: a device, or a port as "mlx5_0:1"; empty: by NUMA node.
struct NicChoice {
  std::string name;
  NicGdr gdr;
};

struct LinkSpec {
  int channel = 0;
  Direction direction = Direction::send;
  PeerInfo self{};
  PeerInfo peer{};
  FifoGeometry geometry[kernels::kProtocolCount] = {};
  // Distinguishes links of one (channel, pair): 0 ring/tree (shared), 1 point-to-point on first
  // use, others those of a relay, by the rank whose data it is.
  uint32_t purpose = 0;
  // P2P between GPUs: Simple's slots lie at the sender and the receiver reads them; else they lie
  // at the receiver and the sender writes them. The same at both ends.
  bool p2p_read = false;
  NicChoice nic{};  // NET
  // NET, sending: the data is another rank's of this host, which writes it here; else null.
  std::shared_ptr<RelayMemory> relay = {};
  // The link the other way is made in the same step, at both ends.
  bool paired = false;
};

// Passing descriptors between processes of one host; the runtime's bootstrap implements it.
class FdExchange {
 public:
  virtual ~FdExchange() = default;
  virtual Status send_fd(int peer, uint64_t tag, int fd,
                         Deadline deadline) = 0;  // does not wait for the peer's receive
  virtual Result<Fd> recv_fd(int peer, uint64_t tag, Deadline deadline) = 0;
};

// Hands out connections that authenticated peers opened to this rank's NET listener, by key.
// Implemented by the proxy engine, whose thread accepts. Keys are chosen by transports (see
// net/socket).
class NetAcceptor {
 public:
  virtual ~NetAcceptor() = default;
  // A connection with this key is expected; others are rejected. Called before the peer can know.
  virtual void expect(uint64_t key) = 0;
  // `session` (may be null) gets what the handshake left.
  virtual Result<Fd> take(uint64_t key, Deadline deadline, base::Session* session = nullptr) = 0;
};

// A network interface of this rank's host.
struct Interface {
  std::string name;
  base::Address address{};
  int prefix_bits = 0;  // of its subnet; 0: not known
};

inline constexpr size_t kMostInterfaces = 16;

struct Services {
  FdExchange* fds = nullptr;
  NetAcceptor* acceptor = nullptr;
  base::Secret secret{};  // for auth_connect to a peer's listener
  base::Source source{};  // by which interface; empty: by the routing table
  // That sockets are spread over, each with the address that its listener has; null, or one: the
  // peer's PeerInfo says where to go.
  std::shared_ptr<const std::vector<Interface>> interfaces;
  uint64_t comm_hash = 0;             // identity of the communicator: salt for names and tags
  int sockets_per_thread = 1;         // NET/Socket
  int helper_threads = 0;             // of a connection; -1: by what is at its ends
  bool timed = false;                 // network links count how long they carry data
  bool integrity = false;             // they carry MACs; a network that has none is refused
  uint32_t* abort_word = nullptr;     // nonzero: abort
  std::shared_ptr<Device> device;     // of this rank; null for a CPU rank
  std::shared_ptr<NetPlugin> plugin;  // of this rank's NetPresence; null: none
};

enum class Progress : uint8_t { idle, moved, would_block };

class Link {
 public:
  virtual ~Link() = default;
  // This end's Fifo for a protocol; null when the link was made without it. Stable address.
  virtual kernels::Fifo* fifo(kernels::Protocol protocol) = 0;
  // The text after "via" in the log line: "SHM", "P2P/direct pointer", "NET/Socket/0".
  virtual const std::string& via() const = 0;
  // The device of this end, where the link knows better than its LinkSpec; else empty.
  virtual std::string nic() const { return ""; }
  // In words, for an error of a wait: what can be seen of the wire now; may be empty.
  virtual std::string condition() const { return ""; }
  // As base::unacknowledged_s, of the connection to the peer.
  virtual double unacknowledged_s() const { return 0; }
  // Why it is so, where there was a choice (GPU memory through a NIC, or not); may be empty.
  virtual std::string why() const { return ""; }
  virtual uint64_t device_bytes() const { return 0; }  // of this end's GPU memory
  // Links with needs_progress() are driven by the proxy engine. `progress` moves what can be moved
  // now without waiting; an error (code lost) names the peer. `add_interest` appends the
  // descriptors that would make it move.
  virtual bool needs_progress() const { return false; }
  // `awaited`: the driver waits to receive from that fifo alone, so that other links need not look
  // at their peers often; null: from any.
  virtual Result<Progress> progress(const kernels::Fifo* /*awaited*/ = nullptr) {
    return Progress::idle;
  }
  // At the end of an operation: sends on, and takes in what that waits for.
  virtual Result<Progress> flush() { return progress(); }
  virtual void add_interest(std::vector<pollfd>&) {}
  // Before sleeping the engine arms the fifos' sleeper words of proxied links; returns false when
  // work appeared.
  virtual bool arm() { return true; }
  virtual void disarm() {}
  // With Services::timed, of a sending end: how long there was data that the network had not taken
  // yet. Any thread.
  virtual uint64_t carrying_ns() const { return 0; }
  // True when everything this end was given is on the wire (flush before close).
  virtual bool drained() const { return true; }
  // The engine that drives this link has an eventfd: fifos carry it as bell_fd, helper threads of
  // the link ring it.
  virtual void attach_bell(int) {}
  // Called on a receiving end that is `paired`, before anything has moved over either: it may share
  // the connection of the sending end to the same peer. The caller drives neither meanwhile.
  virtual void join(Link& /*sends*/) {}
  // An operation has failed: what is received from now on goes into slots alone.
  virtual void take_back() {}
  // The clean end: the peer is told, so that closing afterwards is not a failure there.
  virtual void say_goodbye() {}
};

class Endpoint {
 public:
  virtual ~Endpoint() = default;
  virtual Result<Bytes> describe(Deadline deadline) = 0;
  virtual Result<std::unique_ptr<Link>> connect(ByteView peer_blob, Deadline deadline) = 0;
};

struct Reach {
  bool ok = false;
  std::string why;  // when not: the rule and its inputs, for -v and errors
};

struct Transport {
  const char* name;   // as in --transport
  const char* joins;  // in help: which ranks
  // Can ranks a and b communicate through it? Pure: the same answer on both sides.
  Reach (*reach)(const PeerInfo& a, const PeerInfo& b);
  Result<std::unique_ptr<Endpoint>> (*open)(const LinkSpec& spec, const Services& services);
  // Instead of connect(), at an end that could not describe: takes in what the peer pushed in its
  // describe(), and drops it. Null: nothing is pushed.
  Status (*decline)(const LinkSpec& spec, const Services& services, ByteView peer_blob,
                    Deadline deadline) = nullptr;
};

}  // namespace collctl::transport
