// Version 7 of the plugin interface (common.h): the size of what is registered is int.
#pragma once
#include "transport/net/plugin/versions/v8.h"

namespace collctl::transport {

struct NetPluginFacts7 {
  const char* name;
  const char* pci_path;
  uint64_t guid;
  int pointers;
  int mbps, port;
  float latency_us;
  int most_connections, most_grouped_receives;
  int offload_kind, offload_version;
};
static_assert(sizeof(NetPluginFacts7) == 56 && offsetof(NetPluginFacts7, offload_kind) == 48);

using NetPlugin7 = NetPluginUpTo9<NetPluginFacts7, int, int>;

struct CollNetPluginCalls7 {
  NetPluginCode (*connect)(void** handles, int count, int rank, void* listener, void** group);
  NetPluginCode (*reduces)(int type, int operation, int* supported);
  NetPluginCode (*register_memory)(void* group, void* at, int bytes, int kind, void** memory);
  NetPluginCode (*register_dmabuf)(void* group, void* at, size_t bytes, int kind, uint64_t offset,
                                   int fd, void** memory);
  NetPluginCode (*deregister)(void* group, void* memory);
  NetPluginCode (*all_reduce)(void* group, void* from, void* to, int count, int type, int operation,
                              void* from_memory, void* to_memory, void** request);
  NetPluginCode (*flush)(void* group, void* data, int bytes, void* memory, void** request);
  NetPluginCode (*test)(void* request, int* done, int* bytes);
  NetPluginCode (*close_group)(void* group);
  NetPluginCode (*close_listener)(void* listener);
};
using CollNetPlugin7 = CollNetPluginUpTo10<NetPluginFacts7, CollNetPluginCalls7>;
static_assert(sizeof(NetPlugin7) == 19 * 8 && sizeof(CollNetPlugin7) == 15 * 8);

struct NetVersion7 : NetVersion8 {
  static constexpr int kNumber = 7;
  using Net = NetPlugin7;
  using CollNet = CollNetPlugin7;
  using RegisterSize = int;
};

}  // namespace collctl::transport
