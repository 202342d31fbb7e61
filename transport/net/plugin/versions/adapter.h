// The calls of calls.h by a version's row (common.h): one adapter for all versions.
#pragma once
#include <cstring>
#include <initializer_list>
#include <limits>

#include "transport/net/plugin/versions/calls.h"

namespace collctl::transport {

template <class Facts>
NetPluginDevice device_of(const Facts& facts, bool collective) {
  NetPluginDevice device;
  device.pointers = facts.pointers;
  device.mbps = facts.mbps;
  if (facts.name != nullptr)
    device.name.assign(facts.name, ::strnlen(facts.name, kNetPluginMostName));
  if constexpr (requires { facts.offload_kind; })
    device.unpacks = facts.offload_kind == kNetPluginUnpacks;
  if constexpr (requires { facts.most_message_bytes; }) {
    device.force_flush = facts.force_flush != 0;
    device.most_message_bytes = collective ? facts.most_collective_bytes : facts.most_message_bytes;
  } else {
    device.most_message_bytes = collective ? kNetPluginOldSum : kNetPluginOldMessage;
  }
  return device;
}

struct NeededCall {
  bool there;
  const char* name;
};
inline const char* first_missing_of(std::initializer_list<NeededCall> all) {
  for (const NeededCall& each : all)
    if (!each.there) return each.name;
  return nullptr;
}

// Whether a number of bytes fits into an older version's int.
template <class Size>
bool fits(size_t bytes) {
  return bytes <= size_t(std::numeric_limits<Size>::max());
}

// `Calls` is what it implements, `Structure` the library's, `Version` the row of its version.
template <class Version, class Structure, class Calls, bool kCollective>
class StartAdapter : public Calls {
 public:
  explicit StartAdapter(const void* structure) : s_(*static_cast<const Structure*>(structure)) {}
  int version() const override { return Version::kNumber; }
  const void* structure() const override { return &s_; }
  int most_requests() const override { return Version::kMostRequests; }
  bool for_each_communicator() const override { return Version::kContext; }
  std::string name() const override {
    return s_.name != nullptr ? std::string(s_.name, ::strnlen(s_.name, kNetPluginMostName)) : "";
  }

  NetPluginCode devices(int* count) const override { return s_.devices(count); }
  NetPluginCode facts(int index, NetPluginDevice* device) const override {
    auto facts = facts_for(s_.facts);
    const NetPluginCode code = s_.facts(index, &facts);
    if (code == kNetPluginOk) *device = device_of(facts, kCollective);
    return code;
  }
  NetPluginCode listen(void* context, int device, void* handle, void** listener) const override {
    if constexpr (Version::kContext)
      return s_.listen(context, device, handle, listener);
    else
      return s_.listen(device, handle, listener);
  }
  NetPluginCode register_memory(void* connection, void* at, size_t bytes, int kind,
                                void** memory) const override {
    using Size = typename Version::RegisterSize;
    if (!fits<Size>(bytes)) return kNetPluginInvalidArgument;
    return s_.calls.register_memory(connection, at, Size(bytes), kind, memory);
  }
  NetPluginCode deregister(void* connection, void* memory) const override {
    return s_.calls.deregister(connection, memory);
  }
  NetPluginCode test(void* request, int* done, int* bytes) const override {
    return s_.calls.test(request, done, bytes);
  }
  NetPluginCode close_listener(void* listener) const override {
    return s_.calls.close_listener(listener);
  }
  NetPluginCode finalize(void* context) const override {
    if constexpr (Version::kContext)
      if (s_.finalize != nullptr) return s_.finalize(context);
    return kNetPluginOk;
  }

 protected:
  const char* missing_at_start() const {
    return first_missing_of({{s_.name != nullptr, "name"},
                             {s_.init != nullptr, "init"},
                             {s_.devices != nullptr, "devices"},
                             {s_.facts != nullptr, "getProperties"},
                             {s_.listen != nullptr, "listen"},
                             {s_.calls.register_memory != nullptr, "regMr"},
                             {s_.calls.deregister != nullptr, "deregMr"},
                             {s_.calls.test != nullptr, "test"},
                             {s_.calls.close_listener != nullptr, "closeListen"}});
  }
  const Structure& s_;

 private:
  template <class Facts>
  static Facts facts_for(NetPluginCode (*)(int, Facts*)) {
    return Facts{};
  }
};

template <class Version>
class NetAdapter final
    : public StartAdapter<Version, typename Version::Net, NetPluginCalls, false> {
  using Start = StartAdapter<Version, typename Version::Net, NetPluginCalls, false>;
  using Start::s_;

 public:
  using Start::Start;
  const char* first_missing() const override {
    if (const char* missing = this->missing_at_start(); missing != nullptr) return missing;
    return first_missing_of({{s_.connect != nullptr, "connect"},
                             {s_.calls.accept != nullptr, "accept"},
                             {s_.calls.send != nullptr, "isend"},
                             {s_.calls.receive != nullptr, "irecv"},
                             {s_.calls.close_send != nullptr, "closeSend"},
                             {s_.calls.close_receive != nullptr, "closeRecv"}});
  }
  NetPluginCode init(void** context, uint64_t communicator, NetPluginConfig* config,
                     NetPluginLog log, NetPluginProfile profile) const override {
    if constexpr (Version::kContext)
      return s_.init(context, communicator, config, log, profile);
    else if constexpr (Version::kProfile)
      return s_.init(log, profile);
    else
      return s_.init(log);
  }
  NetPluginCode connect(void* context, int device, NetPluginConfig* config, void* handle,
                        void** connection) const override {
    [[maybe_unused]] void* no_offload = nullptr;
    if constexpr (Version::kContext)
      return s_.connect(context, device, handle, connection, &no_offload);
    else if constexpr (Version::kProfile)
      return s_.connect(device, config, handle, connection, &no_offload);
    else if constexpr (Version::kOffload)
      return s_.connect(device, handle, connection, &no_offload);
    else
      return s_.connect(device, handle, connection);
  }
  NetPluginCode accept(void* listener, void** connection) const override {
    [[maybe_unused]] void* no_offload = nullptr;
    if constexpr (Version::kOffload)
      return s_.calls.accept(listener, connection, &no_offload);
    else
      return s_.calls.accept(listener, connection);
  }
  bool takes_dmabuf() const override { return s_.calls.register_dmabuf != nullptr; }
  NetPluginCode register_dmabuf(void* connection, void* at, size_t bytes, int kind, uint64_t offset,
                                int fd, void** memory) const override {
    return s_.calls.register_dmabuf(connection, at, bytes, kind, offset, fd, memory);
  }
  NetPluginCode send(void* connection, void* data, size_t bytes, int tag, void* memory,
                     void** request) const override {
    using Size = typename Version::MessageSize;
    if (!fits<Size>(bytes)) return kNetPluginInvalidArgument;
    if constexpr (Version::kProfile)
      return s_.calls.send(connection, data, bytes, tag, memory, nullptr, request);
    else
      return s_.calls.send(connection, data, Size(bytes), tag, memory, request);
  }
  NetPluginCode receive(void* connection, void* data, size_t bytes, int tag, void* memory,
                        void** request) const override {
    using Size = typename Version::MessageSize;
    if (!fits<Size>(bytes)) return kNetPluginInvalidArgument;
    auto room = Size(bytes);
    [[maybe_unused]] void* no_profile = nullptr;
    if constexpr (Version::kProfile)
      return s_.calls.receive(connection, 1, &data, &room, &tag, &memory, &no_profile, request);
    else
      return s_.calls.receive(connection, 1, &data, &room, &tag, &memory, request);
  }
  bool flushes() const override { return s_.calls.flush != nullptr; }
  NetPluginCode flush(void* connection, void* data, int bytes, void* memory,
                      void** request) const override {
    return s_.calls.flush(connection, 1, &data, &bytes, &memory, request);
  }
  NetPluginCode close_send(void* connection) const override {
    return s_.calls.close_send(connection);
  }
  NetPluginCode close_receive(void* connection) const override {
    return s_.calls.close_receive(connection);
  }
};

template <class Version>
class CollNetAdapter final
    : public StartAdapter<Version, typename Version::CollNet, CollNetPluginCalls, true> {
  using Start = StartAdapter<Version, typename Version::CollNet, CollNetPluginCalls, true>;
  using Start::s_;

 public:
  using Start::Start;
  const char* first_missing() const override {
    if (const char* missing = this->missing_at_start(); missing != nullptr) return missing;
    return first_missing_of({{s_.calls.connect != nullptr, "connect"},
                             {s_.calls.reduces != nullptr, "reduceSupport"},
                             {s_.calls.all_reduce != nullptr, "iallreduce"},
                             {s_.calls.close_group != nullptr, "closeColl"}});
  }
  NetPluginCode init(void** context, uint64_t communicator, NetPluginConfig*, NetPluginLog log,
                     NetPluginProfile) const override {
    if constexpr (Version::kContext)
      return s_.init(context, communicator, log);
    else
      return s_.init(log);
  }
  NetPluginCode connect(void** handles, int count, int rank, void* listener,
                        void** group) const override {
    return s_.calls.connect(handles, count, rank, listener, group);
  }
  NetPluginCode reduces(int type, int operation, int* supported) const override {
    return s_.calls.reduces(type, operation, supported);
  }
  NetPluginCode all_reduce(void* group, void* from, void* to, size_t count, int type, int operation,
                           void* from_memory, void* to_memory, void** request) const override {
    using Size = typename Version::MessageSize;
    if (!fits<Size>(count)) return kNetPluginInvalidArgument;
    return s_.calls.all_reduce(group, from, to, Size(count), type, operation, from_memory,
                               to_memory, request);
  }
  NetPluginCode close_group(void* group) const override { return s_.calls.close_group(group); }
};

}  // namespace collctl::transport
