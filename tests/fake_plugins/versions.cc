// One structure of the interface, of the version that the build names (FAKE_PLUGIN_VERSION), and
// what tests ask for (control.h).
#include <cstring>

#include "tests/fake_plugins/sockets.h"

namespace fake_plugin {

// As plugins of that time.
const int kMostRequests = FAKE_PLUGIN_VERSION == 6 ? 8 : 32;

namespace {

NetPluginCode begin(NetPluginLog log) {
  {
    World& w = world();
    const std::lock_guard lock(w.mutex);
    w.log = log;
    w.calls.clear();
  }
  if (log != nullptr) log(3, ~0ul, __FILE__, __LINE__, "version %d begins", FAKE_PLUGIN_VERSION);
  FAKE_FAULT("init");
  return kNetPluginOk;
}

#if FAKE_PLUGIN_VERSION >= 11
struct Context {
  uint64_t communicator;
};
NetPluginCode init(void** context, uint64_t communicator, NetPluginConfig* config, NetPluginLog log,
                   NetPluginProfile) {
  if (config == nullptr || config->traffic_class != -1) return kNetPluginInternalError;
  const NetPluginCode begun = begin(log);
  if (begun != kNetPluginOk) return begun;
  *context = new Context{communicator};
  ++world().sessions;
  return kNetPluginOk;
}
NetPluginCode listen(void* context, int, void* handle, void** listener) {
  if (context == nullptr) return kNetPluginInternalError;
  return listen_at(handle, listener);
}
NetPluginCode connect(void* context, int, void* handle, void** connection, void** offload) {
  if (context == nullptr) return kNetPluginInternalError;
  return offload == nullptr ? kNetPluginInternalError : connect_to(handle, connection);
}
NetPluginCode finalize(void* context) {
  const NetPluginCode wrong = fault("finalize");
  delete static_cast<Context*>(context);
  --world().sessions;
  return wrong;
}
#else
NetPluginCode init_once(NetPluginLog log) {
  // The interface has no end for it: once in a process.
  if (world().sessions != 0) return refuse(3, "initialised twice");
  const NetPluginCode begun = begin(log);
  if (begun == kNetPluginOk) ++world().sessions;
  return begun;
}
NetPluginCode listen(int, void* handle, void** listener) {
  return listen_at(handle, listener);
}
#if FAKE_PLUGIN_VERSION == 10
NetPluginCode init(NetPluginLog log, NetPluginProfile profile) {
  return profile == nullptr ? kNetPluginInternalError : init_once(log);
}
NetPluginCode connect(int, NetPluginConfig* config, void* handle, void** connection, void**) {
  if (config == nullptr || config->traffic_class != -1) return kNetPluginInternalError;
  return connect_to(handle, connection);
}
#elif FAKE_PLUGIN_VERSION >= 7
constexpr auto init = init_once;
NetPluginCode connect(int, void* handle, void** connection, void** offload) {
  return offload == nullptr ? kNetPluginInternalError : connect_to(handle, connection);
}
#else
constexpr auto init = init_once;
NetPluginCode connect(int, void* handle, void** connection) {
  return connect_to(handle, connection);
}
#endif
#endif

// Sizes as the version has them, and what its connections look like.
#if FAKE_PLUGIN_VERSION >= 9
using Message = size_t;
#else
using Message = int;
#endif
#if FAKE_PLUGIN_VERSION >= 8
using Size = size_t;
#else
using Size = int;
#endif
#define FAKE_JOIN(a, b) a##b
#define FAKE_NAME(a, b) FAKE_JOIN(a, b)
using Structure = FAKE_NAME(NetPlugin, FAKE_PLUGIN_VERSION);

Structure structure() {
  Structure s{};
  s.name = "Wires";
  s.init = init;
  s.devices = socket_devices;
  s.facts = socket_facts;
  s.listen = listen;
  s.connect = connect;
#if FAKE_PLUGIN_VERSION >= 10
  s.calls = kSocketCalls;
#else
#if FAKE_PLUGIN_VERSION == 6
  s.calls.accept = [](void* listener, void** connection) {
    return kSocketCalls.accept(listener, connection, nullptr);
  };
#else
  s.calls.accept = kSocketCalls.accept;
#endif
  s.calls.register_memory = [](void* connection, void* at, Size bytes, int kind, void** memory) {
    return kSocketCalls.register_memory(connection, at, size_t(bytes), kind, memory);
  };
  s.calls.register_dmabuf = kSocketCalls.register_dmabuf;
  s.calls.deregister = kSocketCalls.deregister;
  s.calls.send = [](void* connection, void* data, Message bytes, int tag, void* memory,
                    void** request) {
    return kSocketCalls.send(connection, data, size_t(bytes), tag, memory, nullptr, request);
  };
  s.calls.receive = [](void* connection, int count, void** data, Message* bytes, int* tags,
                       void** memories, void** request) {
    size_t room = size_t(bytes[0]);
    return kSocketCalls.receive(connection, count, data, &room, tags, memories, nullptr, request);
  };
  s.calls.flush = kSocketCalls.flush;
  s.calls.test = kSocketCalls.test;
  s.calls.close_send = kSocketCalls.close_send;
  s.calls.close_receive = kSocketCalls.close_receive;
  s.calls.close_listener = kSocketCalls.close_listener;
#endif
#if FAKE_PLUGIN_VERSION >= 11
  s.finalize = finalize;
#endif
  return s;
}

}  // namespace
}  // namespace fake_plugin

using namespace fake_plugin;

#define FAKE_STRUCTURE FAKE_NAME(ncclNetPlugin_v, FAKE_PLUGIN_VERSION)
extern "C" {
FAKE_PLUGIN_EXPORT extern const Structure FAKE_STRUCTURE;
const Structure FAKE_STRUCTURE = structure();
}

extern "C" FAKE_PLUGIN_EXPORT fake_plugin::Counts fake_plugin_counts() {
  const fake_plugin::World& w = fake_plugin::world();
  return {w.sessions, w.listeners, w.connections, w.memories, w.requests, w.flushes, w.messages};
}

extern "C" FAKE_PLUGIN_EXPORT int fake_plugin_late() {
  fake_plugin::World& w = fake_plugin::world();
  const std::lock_guard lock(w.mutex);
  const int count = int(w.left.size());
  for (const fake_plugin::Left& left : w.left) std::memset(left.at, 0xdb, left.bytes);
  w.left.clear();
  return count;
}
