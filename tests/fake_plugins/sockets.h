// The network of the plugins of the tests: a listener, and connections one way over TCP that never
// wait. The receiver's end of a socket tells how much room each receive has; the sender's end sends
// a message only into such room.
#pragma once
#include <netinet/in.h>

#include <deque>
#include <memory>
#include <set>
#include <vector>

#include "tests/fake_plugins/faults.h"

namespace fake_plugin {

struct Handle {  // what goes to the peer; `begun` is of the one who connects
  sockaddr_in at;
  void* begun;
};
static_assert(sizeof(Handle) <= kNetPluginHandleBytes);

struct Memory {
  uint8_t* at;
  size_t bytes;
  int kind;
};

struct Connection;
struct Request {
  Connection* connection = nullptr;
  uint8_t* data = nullptr;
  size_t bytes = 0;  // to send, or room for; then what came
  Memory* memory = nullptr;
  std::vector<uint8_t> wire;  // receive: what came, until it may be seen
  bool flush = false;
  bool done = false;
};

struct Connection {
  int fd = -1;
  bool sends = false;
  std::deque<Request*> pending;  // in order
  std::set<Request*> open;       // made and not yet told as done
  std::deque<uint64_t> room;     // sends: of receives that wait
  std::vector<uint8_t> out;
  std::vector<uint8_t> in;
  std::set<Memory*> memories;
  std::map<uint8_t*, std::vector<uint8_t>> unseen;  // came for a GPU, not flushed
};

struct Listener {
  int fd = -1;
  int asked = 0;
};

NetPluginCode listen_at(void* handle, void** listener);
NetPluginCode connect_to(void* handle, void** connection);
// The calls as versions 10 and later have them.
extern const NetPluginCalls10 kSocketCalls;
NetPluginCode socket_devices(int* count);
// Fills in what all versions' facts begin with, and the sizes.
template <class Facts>
NetPluginCode socket_facts(int device, Facts* facts) {
  FAKE_FAULT("getProperties");
  static const char* const kNames[] = {"wire0", "wire1"};
  const std::string pointers = variable("FAKE_PLUGIN_POINTERS");
  *facts = Facts{};
  facts->name = kNames[device];
  facts->pointers = nonsense("no-host") ? 0 : pointers.empty() ? 1 : std::atoi(pointers.c_str());
  facts->mbps = 10000;
  facts->most_connections = 1 << 16;
  facts->most_grouped_receives = 1;
  if constexpr (requires { facts->offload_kind; })
    facts->offload_kind = nonsense("unpacks") ? kNetPluginUnpacks : 0;
  if constexpr (requires { facts->most_message_bytes; })
    facts->most_message_bytes = facts->most_collective_bytes = nonsense("no-bytes") ? 0 : 1u << 30;
  return kNetPluginOk;
}

}  // namespace fake_plugin
