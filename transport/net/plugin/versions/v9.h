// Version 9 of the plugin interface (common.h): no configuration, no profile.
#pragma once
#include "transport/net/plugin/versions/v10.h"

namespace collctl::transport {

// The part that versions 7 to 9 share, but for the sizes.
template <class Register, class Message>
struct NetPluginCallsUpTo9 {
  NetPluginCode (*accept)(void* listener, void** connection, void** offload);
  NetPluginCode (*register_memory)(void* connection, void* at, Register bytes, int kind,
                                   void** memory);
  NetPluginCode (*register_dmabuf)(void* connection, void* at, size_t bytes, int kind,
                                   uint64_t offset, int fd, void** memory);
  NetPluginCode (*deregister)(void* connection, void* memory);
  NetPluginCode (*send)(void* connection, void* data, Message bytes, int tag, void* memory,
                        void** request);
  NetPluginCode (*receive)(void* connection, int count, void** data, Message* bytes, int* tags,
                           void** memories, void** request);
  NetPluginCode (*flush)(void* connection, int count, void** data, int* bytes, void** memories,
                         void** request);
  NetPluginCode (*test)(void* request, int* done, int* bytes);
  NetPluginCode (*close_send)(void* connection);
  NetPluginCode (*close_receive)(void* connection);
  NetPluginCode (*close_listener)(void* listener);
  NetPluginCode (*device_memory)(void* connection, void* memory, void** device_memory);
  NetPluginCode (*consumed)(void* connection, int count, void* request);
};
template <class Facts, class Register, class Message>
struct NetPluginUpTo9 {
  const char* name;
  NetPluginCode (*init)(NetPluginLog);
  NetPluginCode (*devices)(int* count);
  NetPluginCode (*facts)(int device, Facts*);
  NetPluginCode (*listen)(int device, void* handle, void** listener);
  NetPluginCode (*connect)(int device, void* handle, void** connection, void** offload);
  NetPluginCallsUpTo9<Register, Message> calls;
};

struct NetPlugin9 : NetPluginUpTo9<NetPluginFacts10, size_t, size_t> {
  NetPluginCode (*make_device)(int* device, void* parts);
};
static_assert(sizeof(NetPlugin9) == 20 * 8);

using CollNetPlugin9 = CollNetPlugin10;

struct NetVersion9 : NetVersion10 {
  static constexpr int kNumber = 9;
  using Net = NetPlugin9;
  static constexpr bool kProfile = false;
};

}  // namespace collctl::transport
