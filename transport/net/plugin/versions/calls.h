// A structure of a plugin, whatever its version: the newest version's calls, as far as they are
// used here. Owned by who asked for it (table.h); threads: as the plugin's.
#pragma once
#include <string>

#include "transport/net/plugin/versions/common.h"

namespace collctl::transport {

// One device of a plugin, or of its CollNet.
struct NetPluginDevice {
  std::string name;
  int pointers = 0;  // kNetPluginHost and others
  bool force_flush = false;
  bool unpacks = false;  // GPU memory is filled by GPU code of the plugin's
  int mbps = 0;
  size_t most_message_bytes = 0;  // of a collective's message, for a CollNet
};

// A plugin that does not know sizes: what NCCL sends it at most.
inline constexpr size_t kNetPluginOldMessage = 1u << 30, kNetPluginOldSum = 512u << 20;
inline constexpr size_t kNetPluginMostName = 64;

// The common beginning of both of a library's structures.
class PluginStart {
 public:
  virtual ~PluginStart() = default;
  virtual int version() const = 0;
  virtual const void* structure() const = 0;       // where the library has it
  virtual int most_requests() const = 0;           // in flight on one connection
  virtual bool for_each_communicator() const = 0;  // else init is called once in a process
  virtual std::string name() const = 0;            // cut
  // The interface's name of the first function that is called and is not there; null: none.
  virtual const char* first_missing() const = 0;

  virtual NetPluginCode init(void** context, uint64_t communicator, NetPluginConfig*, NetPluginLog,
                             NetPluginProfile) const = 0;
  virtual NetPluginCode devices(int* count) const = 0;
  virtual NetPluginCode facts(int device, NetPluginDevice*) const = 0;
  virtual NetPluginCode listen(void* context, int device, void* handle, void** listener) const = 0;
  virtual NetPluginCode register_memory(void* connection, void* at, size_t bytes, int kind,
                                        void** memory) const = 0;
  virtual NetPluginCode deregister(void* connection, void* memory) const = 0;
  virtual NetPluginCode test(void* request, int* done, int* bytes) const = 0;
  virtual NetPluginCode close_listener(void* listener) const = 0;
  virtual NetPluginCode finalize(void* context) const = 0;
};

class NetPluginCalls : public PluginStart {
 public:
  // Null connections: not yet, call again.
  virtual NetPluginCode connect(void* context, int device, NetPluginConfig*, void* handle,
                                void** connection) const = 0;
  virtual NetPluginCode accept(void* listener, void** connection) const = 0;
  virtual bool takes_dmabuf() const = 0;
  virtual NetPluginCode register_dmabuf(void* connection, void* at, size_t bytes, int kind,
                                        uint64_t offset, int fd, void** memory) const = 0;
  // The request may stay null: not now.
  virtual NetPluginCode send(void* connection, void* data, size_t bytes, int tag, void* memory,
                             void** request) const = 0;
  virtual NetPluginCode receive(void* connection, void* data, size_t bytes, int tag, void* memory,
                                void** request) const = 0;
  virtual bool flushes() const = 0;
  virtual NetPluginCode flush(void* connection, void* data, int bytes, void* memory,
                              void** request) const = 0;
  virtual NetPluginCode close_send(void* connection) const = 0;
  virtual NetPluginCode close_receive(void* connection) const = 0;
};

class CollNetPluginCalls : public PluginStart {
 public:
  virtual NetPluginCode connect(void** handles, int count, int rank, void* listener,
                                void** group) const = 0;
  virtual NetPluginCode reduces(int type, int operation, int* supported) const = 0;
  virtual NetPluginCode all_reduce(void* group, void* from, void* to, size_t count, int type,
                                   int operation, void* from_memory, void* to_memory,
                                   void** request) const = 0;
  virtual NetPluginCode close_group(void* group) const = 0;
};

}  // namespace collctl::transport
