// Version 10 of the plugin interface (common.h): one init for the process, no context.
#pragma once
#include "transport/net/plugin/versions/v11.h"

namespace collctl::transport {

struct NetPlugin10 {
  const char* name;
  NetPluginCode (*init)(NetPluginLog, NetPluginProfile);
  NetPluginCode (*devices)(int* count);
  NetPluginCode (*facts)(int device, NetPluginFacts10*);
  NetPluginCode (*listen)(int device, void* handle, void** listener);
  NetPluginCode (*connect)(int device, NetPluginConfig*, void* handle, void** connection,
                           void** offload);
  NetPluginCalls10 calls;
};
static_assert(sizeof(NetPlugin10) == 20 * 8);

// The part that versions 6 to 10 share.
template <class Facts, class Calls>
struct CollNetPluginUpTo10 {
  const char* name;
  NetPluginCode (*init)(NetPluginLog);
  NetPluginCode (*devices)(int* count);
  NetPluginCode (*facts)(int device, Facts*);
  NetPluginCode (*listen)(int device, void* handle, void** listener);
  Calls calls;
};
using CollNetPlugin10 = CollNetPluginUpTo10<NetPluginFacts10, CollNetPluginCalls9>;
static_assert(sizeof(CollNetPlugin10) == 18 * 8);

struct NetVersion10 : NetVersion11 {
  static constexpr int kNumber = 10;
  using Net = NetPlugin10;
  using CollNet = CollNetPlugin10;
  static constexpr bool kContext = false;
};

}  // namespace collctl::transport
