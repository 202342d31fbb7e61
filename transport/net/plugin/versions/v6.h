// Version 6 of the plugin interface (common.h): nothing of offloads, 8 requests at once.
#pragma once
#include "transport/net/plugin/versions/v7.h"

namespace collctl::transport {

struct NetPluginFacts6 {
  const char* name;
  const char* pci_path;
  uint64_t guid;
  int pointers;
  int mbps, port;
  float latency_us;
  int most_connections, most_grouped_receives;
};
static_assert(sizeof(NetPluginFacts6) == 48 && offsetof(NetPluginFacts6, most_connections) == 40);

struct NetPluginCalls6 {
  NetPluginCode (*accept)(void* listener, void** connection);
  NetPluginCode (*register_memory)(void* connection, void* at, int bytes, int kind, void** memory);
  NetPluginCode (*register_dmabuf)(void* connection, void* at, size_t bytes, int kind,
                                   uint64_t offset, int fd, void** memory);
  NetPluginCode (*deregister)(void* connection, void* memory);
  NetPluginCode (*send)(void* connection, void* data, int bytes, int tag, void* memory,
                        void** request);
  NetPluginCode (*receive)(void* connection, int count, void** data, int* bytes, int* tags,
                           void** memories, void** request);
  NetPluginCode (*flush)(void* connection, int count, void** data, int* bytes, void** memories,
                         void** request);
  NetPluginCode (*test)(void* request, int* done, int* bytes);
  NetPluginCode (*close_send)(void* connection);
  NetPluginCode (*close_receive)(void* connection);
  NetPluginCode (*close_listener)(void* listener);
};
struct NetPlugin6 {
  const char* name;
  NetPluginCode (*init)(NetPluginLog);
  NetPluginCode (*devices)(int* count);
  NetPluginCode (*facts)(int device, NetPluginFacts6*);
  NetPluginCode (*listen)(int device, void* handle, void** listener);
  NetPluginCode (*connect)(int device, void* handle, void** connection);
  NetPluginCalls6 calls;
};
using CollNetPlugin6 = CollNetPluginUpTo10<NetPluginFacts6, CollNetPluginCalls7>;
static_assert(sizeof(NetPlugin6) == 17 * 8);

struct NetVersion6 : NetVersion7 {
  static constexpr int kNumber = 6;
  static constexpr int kMostRequests = 8;
  using Net = NetPlugin6;
  using CollNet = CollNetPlugin6;
  static constexpr bool kOffload = false;
};

}  // namespace collctl::transport
