// What the NET transport asks of a network: connections that carry ordered streams of messages, one
// stream per protocol. Rows of the table are networks (sockets now). Everything after set-up is
// non-blocking: back-pressure is kNoRequest, not an error.
//
// A stream has a window: so many messages may be posted and not yet tested. The network promises
// the receiver never more messages than it posted receives, so that a sender that runs ahead gets
// kNoRequest. Requests of one stream are done in order. Threads: one at a time per connection
// (helper threads of a network are its own business). The connection owns nothing that is posted.
#pragma once
#include <poll.h>

#include <memory>
#include <span>
#include <string_view>
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

using NetRequest = uint32_t;
inline constexpr NetRequest kNoRequest = ~0u;

struct NetDone {
  bool done = false;
  uint32_t bytes = 0;  // of the message; receives only
};

class NetConnection {
 public:
  virtual ~NetConnection() = default;  // closes
  // Makes memory known to the network; the value goes into post_*. 0 is host memory that needs
  // nothing.
  virtual Result<uint64_t> register_memory(void* address, size_t bytes) = 0;
  virtual Result<NetRequest> post_send(int stream, const void* data, uint32_t bytes,
                                       uint64_t memory) = 0;
  virtual Result<NetRequest> post_recv(int stream, void* data, uint32_t capacity,
                                       uint64_t memory) = 0;
  // A request that is done is over and its slot of the window free again.
  virtual Result<NetDone> test(NetRequest request) = 0;
  // Received data is visible to whoever reads it next (a GPU behind the NIC); true when it is.
  virtual Result<bool> flush(uint64_t memory) = 0;

  // Moves bytes now; true when some moved. An error (code lost) says what broke.
  virtual Result<bool> progress() = 0;
  virtual void add_interest(std::vector<pollfd>& fds) = 0;
  // Before the driver sleeps; false when something is done already.
  virtual bool arm() = 0;
  virtual void disarm() = 0;
  virtual bool idle() const = 0;  // nothing of this end waits to be put on the wire
  virtual void attach_bell(int fd) = 0;
  virtual void say_goodbye() = 0;
  // After the goodbye: the peer has it, this end may be closed.
  virtual bool delivered() const = 0;
};

struct Net {
  const char* name;  // as in --net
  const char* via;   // as in the log line
  // Receive end: what the send end must know to connect.
  Result<Bytes> (*listen)(const NetEnd& end, const Services& services);
  // Send end: what the receive end must know to accept.
  Result<Bytes> (*introduce)(const NetEnd& end, const Services& services);
  Result<std::unique_ptr<NetConnection>> (*connect)(const NetEnd& end, const Services& services,
                                                    ByteView listener, Deadline deadline);
  Result<std::unique_ptr<NetConnection>> (*accept)(const NetEnd& end, const Services& services,
                                                   ByteView introduction, Deadline deadline);
};

// THE table of networks, best first.
std::span<const Net> nets();

}  // namespace collctl::transport
