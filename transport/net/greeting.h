// Greeting: the first message of a socket connection's send end, naming the connection it belongs
// to. Written by net/socket, read by the owner of the listener (NetAcceptor).
#pragma once
#include "base/bytes.h"

namespace collctl::transport {

struct NetGreeting {
  uint64_t magic;
  uint64_t key;  // edge_key of the connection and the socket's index
  int32_t from, to;
};
inline constexpr uint64_t kNetGreetingMagic = 0x31474e494b4c4c43u;

inline Bytes encode(const NetGreeting& greeting) {
  ByteWriter w;
  w.put(greeting);
  return w.take();
}
// False when it is no greeting of a network connection.
inline bool decode(ByteView bytes, NetGreeting& greeting) {
  ByteReader r(bytes);
  greeting = r.get<NetGreeting>();
  return r.ok() && r.at_end() && greeting.magic == kNetGreetingMagic;
}

}  // namespace collctl::transport
