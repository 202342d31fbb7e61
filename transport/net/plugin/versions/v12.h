// Version 12 of the plugin interface (common.h); version 11 has the same functions.
#pragma once
#include "transport/net/plugin/versions/common.h"

namespace collctl::transport {

struct NetPluginFacts {  // what versions 9 and later begin with
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
struct NetPluginFacts12 : NetPluginFacts {
  NetPluginParts<8> parts;
  size_t most_message_bytes, most_collective_bytes;
  int most_requests_at_once;
  int16_t rail, plane;
};
static_assert(sizeof(NetPluginFacts12) == 128);

// --- the network: functions that are the same in versions 10 and later ---

struct NetPluginCalls10 {
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
  NetPluginCalls10 calls;
  NetPluginCode (*finalize)(void* context);
  NetPluginCode (*set_attributes)(void* context, void* attributes);
};
using NetPlugin12 = NetPluginSince11<NetPluginFacts12>;
static_assert(sizeof(NetPlugin12) == 22 * 8);

// --- CollNet: in-network reduction ---

struct CollNetPluginCalls9 {
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

template <class Facts>
struct CollNetPluginSince11 {
  const char* name;
  NetPluginCode (*init)(void** context, uint64_t communicator, NetPluginLog);
  NetPluginCode (*devices)(int* count);
  NetPluginCode (*facts)(int device, Facts*);
  NetPluginCode (*listen)(void* context, int device, void* handle, void** listener);
  CollNetPluginCalls9 calls;
  NetPluginCode (*finalize)(void* context);
};
using CollNetPlugin12 = CollNetPluginSince11<NetPluginFacts12>;
static_assert(sizeof(CollNetPlugin12) == 19 * 8);

struct NetVersion12 {
  static constexpr int kNumber = 12;
  static constexpr int kMostRequests = kNetPluginMostRequests;
  using Net = NetPlugin12;
  using CollNet = CollNetPlugin12;
  using RegisterSize = size_t;            // of regMr
  using MessageSize = size_t;             // of isend and irecv, and the count of iallreduce
  static constexpr bool kContext = true;  // for each communicator, with finalize
  static constexpr bool kProfile = true;  // with init and messages
  static constexpr bool kOffload = true;  // in connect and accept
};

}  // namespace collctl::transport
