// The binary interface of external network plugins (libnccl-net-*.so): our own declarations,
// 64-bit, of versions 12, 11 and 10. Source: the interface's published description, NCCL 2.30.7's
// plugins/net/README.md and src/include/plugin/net/net_v12.h, net_v11.h and net_v10.h. A library
// exports one structure for each version it implements: ncclNetPlugin_v12 and so on, and
// ncclCollNetPlugin_v12 where it has in-network reduction. Included by net_plugin.cc, and by
// plugins in the tests; everything else uses net_plugin.h.
//
// What changed: 12 devices of up to 8 parts, rails and planes; 11 a context for each communicator,
// finalize and set_attributes. Calls return 0 or one of kNetPlugin*; none may wait.
#pragma once
#include <cstddef>
#include <cstdint>

namespace collctl::base::drivers {

using NetPluginCode = int;  // ncclResult_t
inline constexpr NetPluginCode kNetPluginOk = 0, kNetPluginSystemError = 2,
                               kNetPluginInternalError = 3, kNetPluginRemoteError = 6;
inline constexpr size_t kNetPluginHandleBytes = 128;
inline constexpr int kNetPluginMostRequests = 32;  // in flight on one connection
// Bits of NetPluginFacts::pointers, and the kinds of memory that are registered.
inline constexpr int kNetPluginHost = 1, kNetPluginCuda = 2, kNetPluginDmaBuf = 4;

// Log lines of a plugin: level (2 warning, 3 info, 5 trace), bits of subsystems, then printf's.
using NetPluginLog = void (*)(int level, unsigned long subsystems, const char* where, int line,
                              const char* text, ...);
using NetPluginProfile = NetPluginCode (*)(void** event, int kind, void* parent, int64_t plugin,
                                           void* more);
struct NetPluginConfig {
  int traffic_class;
};

struct NetPluginFacts {  // what all versions begin with
  const char* name;
  const char* pci_path;
  uint64_t guid;
  int pointers, global_registration, force_flush;
  int mbps, port;
  float latency_us;
  int most_connections, most_grouped_receives;
  int offload_kind, offload_version;
};
static_assert(sizeof(NetPluginFacts) == 64 && offsetof(NetPluginFacts, most_connections) == 48);
template <int kParts>
struct NetPluginParts {
  int count;
  int devices[kParts];
};
struct NetPluginFacts10 : NetPluginFacts {
  NetPluginParts<4> parts;
  size_t most_message_bytes, most_collective_bytes;
};
struct NetPluginFacts11 : NetPluginFacts10 {
  int most_requests_at_once;
};
struct NetPluginFacts12 : NetPluginFacts {
  NetPluginParts<8> parts;
  size_t most_message_bytes, most_collective_bytes;
  int most_requests_at_once;
  int16_t rail, plane;
};
static_assert(sizeof(NetPluginFacts10) == 104 && sizeof(NetPluginFacts11) == 112);
static_assert(sizeof(NetPluginFacts12) == 128);

// --- the network: functions that are the same in all versions ---

struct NetPluginCalls {
  NetPluginCode (*accept)(void* listener, void** connection, void** offload);
  NetPluginCode (*register_memory)(void* connection, void* at, size_t bytes, int kind,
                                   void** memory);
  NetPluginCode (*register_dmabuf)(void* connection, void* at, size_t bytes, int kind,
                                   uint64_t offset, int fd, void** memory);
  NetPluginCode (*deregister)(void* connection, void* memory);
  // The request may stay null: not now.
  NetPluginCode (*send)(void* connection, void* data, size_t bytes, int tag, void* memory,
                        void* profile, void** request);
  NetPluginCode (*receive)(void* connection, int count, void** data, size_t* bytes, int* tags,
                           void** memories, void** profiles, void** request);
  NetPluginCode (*flush)(void* connection, int count, void** data, int* bytes, void** memories,
                         void** request);
  NetPluginCode (*test)(void* request, int* done, int* bytes);
  NetPluginCode (*close_send)(void* connection);
  NetPluginCode (*close_receive)(void* connection);
  NetPluginCode (*close_listener)(void* listener);
  NetPluginCode (*device_memory)(void* connection, void* memory, void** device_memory);
  NetPluginCode (*consumed)(void* connection, int count, void* request);
  NetPluginCode (*make_device)(int* device, void* parts);
};

struct NetPlugin10 {
  const char* name;
  NetPluginCode (*init)(NetPluginLog, NetPluginProfile);
  NetPluginCode (*devices)(int* count);
  NetPluginCode (*facts)(int device, NetPluginFacts10*);
  NetPluginCode (*listen)(int device, void* handle, void** listener);
  NetPluginCode (*connect)(int device, NetPluginConfig*, void* handle, void** connection,
                           void** offload);
  NetPluginCalls calls;
};

template <class Facts>
struct NetPluginSince11 {
  const char* name;
  NetPluginCode (*init)(void** context, uint64_t communicator, NetPluginConfig*, NetPluginLog,
                        NetPluginProfile);
  NetPluginCode (*devices)(int* count);
  NetPluginCode (*facts)(int device, Facts*);
  NetPluginCode (*listen)(void* context, int device, void* handle, void** listener);
  NetPluginCode (*connect)(void* context, int device, void* handle, void** connection,
                           void** offload);
  NetPluginCalls calls;
  NetPluginCode (*finalize)(void* context);
  NetPluginCode (*set_attributes)(void* context, void* attributes);
};
using NetPlugin11 = NetPluginSince11<NetPluginFacts11>;
using NetPlugin12 = NetPluginSince11<NetPluginFacts12>;
static_assert(sizeof(NetPlugin10) == 20 * 8 && sizeof(NetPlugin12) == 22 * 8);

// --- CollNet: in-network reduction ---

struct NetPluginPiece {
  void* memory;
  void* at;
  size_t bytes;
};

struct CollNetPluginCalls {
  // All members' handles; `rank` is the caller's place among them.
  NetPluginCode (*connect)(void** handles, int count, int rank, void* listener, void** group);
  NetPluginCode (*reduces)(int type, int operation, int* supported);  // numbers of nccl.h
  NetPluginCode (*register_memory)(void* group, void* at, size_t bytes, int kind, void** memory);
  NetPluginCode (*register_dmabuf)(void* group, void* at, size_t bytes, int kind, uint64_t offset,
                                   int fd, void** memory);
  NetPluginCode (*deregister)(void* group, void* memory);
  NetPluginCode (*all_reduce)(void* group, void* from, void* to, size_t count, int type,
                              int operation, void* from_memory, void* to_memory, void** request);
  NetPluginCode (*all_gather)(void* group, void* from, int pieces, NetPluginPiece* to,
                              size_t bytes_each, size_t window_offset, size_t window_bytes,
                              void* from_memory, void** request);
  NetPluginCode (*reduce_scatter)(void* group, int pieces, NetPluginPiece* from, void* to,
                                  size_t bytes_each, size_t window_offset, size_t window_bytes,
                                  int type, int operation, void* to_memory, void** request);
  NetPluginCode (*flush)(void* group, void* data, int bytes, void* memory, void** request);
  NetPluginCode (*test)(void* request, int* done, int* bytes);
  NetPluginCode (*close_group)(void* group);
  NetPluginCode (*close_listener)(void* listener);
  NetPluginCode (*make_device)(int* device, void* parts);
};

struct CollNetPlugin10 {
  const char* name;
  NetPluginCode (*init)(NetPluginLog);
  NetPluginCode (*devices)(int* count);
  NetPluginCode (*facts)(int device, NetPluginFacts10*);
  NetPluginCode (*listen)(int device, void* handle, void** listener);
  CollNetPluginCalls calls;
};

template <class Facts>
struct CollNetPluginSince11 {
  const char* name;
  NetPluginCode (*init)(void** context, uint64_t communicator, NetPluginLog);
  NetPluginCode (*devices)(int* count);
  NetPluginCode (*facts)(int device, Facts*);
  NetPluginCode (*listen)(void* context, int device, void* handle, void** listener);
  CollNetPluginCalls calls;
  NetPluginCode (*finalize)(void* context);
};
using CollNetPlugin11 = CollNetPluginSince11<NetPluginFacts11>;
using CollNetPlugin12 = CollNetPluginSince11<NetPluginFacts12>;
static_assert(sizeof(CollNetPlugin10) == 18 * 8 && sizeof(CollNetPlugin12) == 19 * 8);

}  // namespace collctl::base::drivers
