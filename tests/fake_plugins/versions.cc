// One structure of the interface, of the version that the build names (FAKE_PLUGIN_VERSION), and
// what tests ask for (control.h).
#include <cstring>

#include "tests/fake_plugins/sockets.h"

namespace fake_plugin {
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

#if FAKE_PLUGIN_VERSION == 10
NetPluginCode init(NetPluginLog log, NetPluginProfile) {
  // The interface has no end for it: once in a process.
  if (world().sessions != 0) return refuse(3, "initialised twice");
  const NetPluginCode begun = begin(log);
  if (begun == kNetPluginOk) ++world().sessions;
  return begun;
}
NetPluginCode facts(int device, NetPluginFacts10* to) {
  return socket_facts(device, to);
}
NetPluginCode listen(int, void* handle, void** listener) {
  return listen_at(handle, listener);
}
NetPluginCode connect(int, NetPluginConfig*, void* handle, void** connection, void**) {
  return connect_to(handle, connection);
}
#else
struct Context {
  uint64_t communicator;
};
using Facts = std::conditional_t<FAKE_PLUGIN_VERSION == 11, NetPluginFacts11, NetPluginFacts12>;

NetPluginCode init(void** context, uint64_t communicator, NetPluginConfig* config, NetPluginLog log,
                   NetPluginProfile) {
  if (config == nullptr || config->traffic_class != -1) return kNetPluginInternalError;
  const NetPluginCode begun = begin(log);
  if (begun != kNetPluginOk) return begun;
  *context = new Context{communicator};
  ++world().sessions;
  return kNetPluginOk;
}
NetPluginCode facts(int device, Facts* to) {
  return socket_facts(device, to);
}
NetPluginCode listen(void* context, int, void* handle, void** listener) {
  if (context == nullptr) return kNetPluginInternalError;
  return listen_at(handle, listener);
}
NetPluginCode connect(void* context, int, void* handle, void** connection, void**) {
  if (context == nullptr) return kNetPluginInternalError;
  return connect_to(handle, connection);
}
NetPluginCode finalize(void* context) {
  const NetPluginCode wrong = fault("finalize");
  delete static_cast<Context*>(context);
  --world().sessions;
  return wrong;
}
#endif

}  // namespace
}  // namespace fake_plugin

using namespace fake_plugin;

extern "C" {
#if FAKE_PLUGIN_VERSION == 10
FAKE_PLUGIN_EXPORT extern const NetPlugin10 ncclNetPlugin_v10;
const NetPlugin10 ncclNetPlugin_v10 = {.name = "Wires",
                                       .init = init,
                                       .devices = socket_devices,
                                       .facts = facts,
                                       .listen = listen,
                                       .connect = connect,
                                       .calls = kSocketCalls};
#else
#if FAKE_PLUGIN_VERSION == 11
#define FAKE_STRUCTURE ncclNetPlugin_v11
#else
#define FAKE_STRUCTURE ncclNetPlugin_v12
#endif
FAKE_PLUGIN_EXPORT extern const NetPluginSince11<Facts> FAKE_STRUCTURE;
const NetPluginSince11<Facts> FAKE_STRUCTURE = {.name = "Wires",
                                                .init = init,
                                                .devices = socket_devices,
                                                .facts = facts,
                                                .listen = listen,
                                                .connect = connect,
                                                .calls = kSocketCalls,
                                                .finalize = finalize,
                                                .set_attributes = nullptr};
#endif
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
