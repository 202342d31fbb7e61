// Version 8 of the plugin interface (common.h): messages are int, the facts end with the offload.
#pragma once
#include "transport/net/plugin/versions/v9.h"

namespace collctl::transport {

struct NetPluginFacts8 {
  const char* name;
  const char* pci_path;
  uint64_t guid;
  int pointers, global_registration;
  int mbps, port;
  float latency_us;
  int most_connections, most_grouped_receives;
  int offload_kind, offload_version;
};
static_assert(sizeof(NetPluginFacts8) == 64 && offsetof(NetPluginFacts8, offload_version) == 56);

using NetPlugin8 = NetPluginUpTo9<NetPluginFacts8, size_t, int>;
static_assert(sizeof(NetPlugin8) == 19 * 8);

struct CollNetPluginPiece8 {
  void* memory;
  void* at;
  uint32_t bytes;
};
struct CollNetPluginCalls8 {
  NetPluginCode (*connect)(void** handles, int count, int rank, void* listener, void** group);
  NetPluginCode (*reduces)(int type, int operation, int* supported);
  NetPluginCode (*register_memory)(void* group, void* at, size_t bytes, int kind, void** memory);
  NetPluginCode (*register_dmabuf)(void* group, void* at, size_t bytes, int kind, uint64_t offset,
                                   int fd, void** memory);
  NetPluginCode (*deregister)(void* group, void* memory);
  NetPluginCode (*all_reduce)(void* group, void* from, void* to, int count, int type, int operation,
                              void* from_memory, void* to_memory, void** request);
  NetPluginCode (*all_gather)(void* group, void* from, int pieces, CollNetPluginPiece8* to,
                              size_t bytes_each, size_t window_offset, size_t window_bytes,
                              void* from_memory, void** request);
  NetPluginCode (*reduce_scatter)(void* group, int pieces, CollNetPluginPiece8* from, void* to,
                                  size_t bytes_each, size_t window_offset, size_t window_bytes,
                                  int type, int operation, void* to_memory, void** request);
  NetPluginCode (*flush)(void* group, void* data, int bytes, void* memory, void** request);
  NetPluginCode (*test)(void* request, int* done, int* bytes);
  NetPluginCode (*close_group)(void* group);
  NetPluginCode (*close_listener)(void* listener);
};
using CollNetPlugin8 = CollNetPluginUpTo10<NetPluginFacts8, CollNetPluginCalls8>;
static_assert(sizeof(CollNetPlugin8) == 17 * 8 && sizeof(CollNetPluginPiece8) == 24);

struct NetVersion8 : NetVersion9 {
  static constexpr int kNumber = 8;
  using Net = NetPlugin8;
  using CollNet = CollNetPlugin8;
  using MessageSize = int;
};

}  // namespace collctl::transport
