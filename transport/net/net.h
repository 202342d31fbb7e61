// The interface of a network for the NET transport: connections that carry ordered streams of
// messages, one stream per protocol. The table of networks is nets.h. Everything after set-up is
// non-blocking: back-pressure is kNoRequest, not an error.
//
// A stream has a window: so many messages may be posted and not yet tested. The network promises
// the receiver never more messages than it posted receives, so that a sender that runs ahead gets
// kNoRequest. Requests of one stream are done in order. Threads: one at a time per connection
// (helper threads of a network are its own business). The connection owns nothing that is posted.
#pragma once
#include <poll.h>

#include <memory>
#include <string>
#include <vector>

#include "transport/transport.h"

namespace collctl::transport {

struct NetStream {
  uint32_t window = 0;  // 0: this stream is not used
  uint32_t max_bytes = 0;
};

struct NetEnd {  // one end of one connection, equal windows at both ends
  LinkSpec spec;
  NetStream streams[kernels::kProtocolCount];
};

// Whether what a NIC wrote into a GPU's memory must be read back before the GPU is told: GPUs below
// compute capability 90 need it on every path, the others where `choice` has it.
inline bool needs_flush(int compute_capability, const NicGdr& choice) {
  return choice.flush || compute_capability < 90;
}

using NetRequest = uint32_t;
inline constexpr NetRequest kNoRequest = ~0u;

struct NetDone {
  bool done = false;
  uint32_t bytes = 0;   // of the message; receives only
  bool placed = false;  // it lies where receive_at() said
};

class NetConnection {
 public:
  virtual ~NetConnection() = default;  // closes
  // As in the log line: "NET/Socket/0".
  virtual const std::string& via() const = 0;
  // As Link has them.
  virtual std::string nic() const { return ""; }
  virtual std::string condition() const { return ""; }
  virtual double unacknowledged_s() const { return 0; }
  // Makes memory known to the network; the value goes into post_*. 0 is host memory that needs
  // nothing.
  virtual Result<uint64_t> register_memory(void* address, size_t bytes) = 0;
  // The same for memory of this rank's GPU, in whole pages; `how` says by what means. Data received
  // there is visible to the GPU once test() reports it done. `in_order`: the GPU looks at it before
  // that, as LL128 does: of 128 bytes the last must not be written before the others. Error
  // unavailable: the network cannot access it, or not so.
  virtual Result<uint64_t> register_device_memory(void*, size_t, bool /*in_order*/,
                                                  std::string& /*how*/) {
    return Error(ErrorCode::unavailable, "this network carries host memory");
  }
  virtual bool may_reach_devices() const { return false; }  // it is worth trying
  // Any memory of this process will do. Sends may be out of it, though it may be gone by then where
  // an operation has failed; only progress() and flush() look there. And receive_at() works.
  virtual bool uses_any_memory() const { return false; }
  // A message that was not yet begun goes there if it has just so many bytes, and not to where its
  // receive was posted. Null: it does not, nor what is left of it.
  virtual void receive_at(NetRequest, void* /*data*/, uint32_t /*bytes*/) {}
  virtual Result<NetRequest> post_send(int stream, const void* data, uint32_t bytes,
                                       uint64_t memory) = 0;
  virtual Result<NetRequest> post_recv(int stream, void* data, uint32_t capacity,
                                       uint64_t memory) = 0;
  // A request that is done is over and its slot of the window free again.
  virtual Result<NetDone> test(NetRequest request) = 0;

  // Moves bytes now; true when some moved. An error (code lost) says what broke.
  virtual Result<bool> progress() = 0;
  // Likewise, while the driver waits for nothing of this end's: it may look at its peer rarely.
  virtual Result<bool> progress_unawaited() { return progress(); }
  // Requests may be done though none of these has moved anything since the last one was posted.
  virtual bool finishes_alone() const { return true; }
  // Likewise, but takes in only what sends wait for.
  virtual Result<bool> flush() { return progress(); }
  virtual void add_interest(std::vector<pollfd>& fds) = 0;
  // Before the driver sleeps; false when something is done already.
  virtual bool arm() = 0;
  virtual void disarm() = 0;
  // The share of the packets sent so far that was sent again; below 0: this network does not say.
  virtual double resent() const { return -1; }
  virtual bool idle() const = 0;  // nothing of this end waits to be put on the wire
  virtual void attach_bell(int fd) = 0;
  // As Link has it.
  virtual void join(NetConnection& /*sends*/) {}
  virtual void say_goodbye() = 0;
  // After the goodbye: the peer has it, this end may be closed.
  virtual bool delivered() const = 0;
  // The last call. False: the network may still read or write what is registered here; it must then
  // stay until the process ends (transport/memory/kept.h).
  virtual bool let_go() { return true; }
};

// One end before it is connected. describe() is called first, once; what the two return is
// exchanged, and both connect. Errors: unavailable, lost, deadline.
class NetHalf {
 public:
  virtual ~NetHalf() = default;
  virtual Result<Bytes> describe(Deadline deadline) = 0;
  virtual Result<std::unique_ptr<NetConnection>> connect(ByteView peer_blob, Deadline deadline) = 0;
};

}  // namespace collctl::transport
