// The library of an external network plugin, whatever version of the interface it speaks
// (versions/table.h): loaded, and used from init to finalize. Libraries are never unloaded. A
// plugin's answers are checked here as far as numbers go; names are cut. Threads: the calls that
// make something (init to connect) one at a time, as plugins want it, and accepts one at a time;
// `calls` as plugins say: one thread at a time for each connection.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "transport/net/plugin/versions/calls.h"

namespace collctl::transport {

// One of the two structures of a library.
struct NetPluginEntry {
  std::string library;                       // as it was opened
  std::shared_ptr<const PluginStart> calls;  // null: there is none
  bool collective = false;
  std::string name;  // of the network, as the plugin has it
};

// A library's entries, found and complete: no function that is called is missing.
struct NetPluginLibrary {
  NetPluginEntry net;
  NetPluginEntry collective;
  std::string why_no_collective;
};
// `name` is a path, or NAME of libnccl-net-NAME.so. Error unavailable: not found, no plugin of
// these versions, functions missing.
Result<NetPluginLibrary> load_net_plugin(const std::string& name);

inline const NetPluginCalls& net_calls(const NetPluginEntry& entry) {
  return static_cast<const NetPluginCalls&>(*entry.calls);
}
inline const CollNetPluginCalls& collective_calls(const NetPluginEntry& entry) {
  return static_cast<const CollNetPluginCalls&>(*entry.calls);
}

// "libx.so: isend failed: system error; it said: ..." - `code` lost once connections exist.
Error net_plugin_error(const NetPluginEntry& entry, const char* call, NetPluginCode code,
                       ErrorCode meaning);

// One use of an entry: init to finalize.
class NetPluginSession {
 public:
  // Error unavailable: init fails, or there are no devices.
  static Result<std::unique_ptr<NetPluginSession>> start(const NetPluginEntry& entry,
                                                         uint64_t communicator);
  ~NetPluginSession();
  NetPluginSession(const NetPluginSession&) = delete;
  NetPluginSession& operator=(const NetPluginSession&) = delete;

  const NetPluginEntry& entry() const { return entry_; }
  const std::vector<NetPluginDevice>& devices() const { return devices_; }
  // `handle` has kNetPluginHandleBytes.
  Result<void*> listen(int device, uint8_t* handle);
  // Null: not yet, call again. Not for a CollNet.
  Result<void*> connect(int device, uint8_t* handle);
  Result<void*> accept(void* listener);

 private:
  explicit NetPluginSession(const NetPluginEntry& entry) : entry_(entry) {}
  Status init(uint64_t communicator);
  Status find_devices();
  Result<NetPluginDevice> device(int index);

  NetPluginEntry entry_;
  std::vector<NetPluginDevice> devices_;
  void* context_ = nullptr;
  bool started_ = false;
};

}  // namespace collctl::transport
