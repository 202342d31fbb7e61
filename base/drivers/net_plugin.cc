#include "base/drivers/net_plugin.h"

#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <set>
#include <type_traits>

#include "base/drivers/library.h"
#include "base/format.h"
#include "base/log.h"

namespace collctl::base::drivers {

namespace {

constexpr int kMostDevices = 256;
constexpr size_t kMostName = 64, kMostLine = 1024;
constexpr int kVersions[] = {12, 11, 10};                      // newest first
constexpr int kFirstKnownVersion = 2, kLastKnownVersion = 20;  // looked for to say what is there

// Plugins are used from one thread at a time while things are made.
std::mutex& setup_mutex() {
  static std::mutex mutex;
  return mutex;
}

std::string bounded(const char* text) {
  if (text == nullptr) return "";
  std::string out(text, ::strnlen(text, kMostName));
  for (char& c : out)
    if (static_cast<unsigned char>(c) < ' ') c = '?';
  return out;
}

// What this thread's last call warned of: errors quote it.
thread_local char last_warning[kMostLine];

__attribute__((format(printf, 5, 6))) void take_line(int level, unsigned long, const char*, int,
                                                     const char* text, ...) {
  constexpr int kWarning = 2, kInfo = 3;
  char line[kMostLine];
  va_list values;
  va_start(values, text);
  const int written = std::vsnprintf(line, sizeof line, text, values);
  va_end(values);
  if (written < 0) return;
  for (char* c = line; *c != 0; ++c)
    if (static_cast<unsigned char>(*c) < ' ') *c = ' ';
  if (level == kWarning) {
    std::memcpy(last_warning, line, sizeof last_warning);
    COLL_INFO(net, "NET/Plugin : warning: {}", line);
  } else if (level == kInfo) {
    COLL_INFO(net, "NET/Plugin : {}", line);
  } else {
    COLL_TRACE(net, "NET/Plugin : {}", line);
  }
}

// There is no profiler for a plugin's own events.
NetPluginCode no_profile(void**, int, void*, int64_t, void*) {
  return kNetPluginOk;
}

NetPluginConfig* config() {
  static NetPluginConfig one{-1};  // no class of traffic; plugins may keep the address
  return &one;
}

const char* meaning_of(NetPluginCode code) {
  static constexpr const char* kMeanings[] = {"success",        "CUDA error",       "system error",
                                              "internal error", "invalid argument", "invalid usage",
                                              "remote error",   "still in progress"};
  return code >= 0 && code < int(std::size(kMeanings)) ? kMeanings[code] : "unknown error";
}

// Calls `with` with the structure in the type of its version.
template <class With>
auto net_of(const NetPluginEntry& e, With with) {
  if (e.version == 12) return with(*static_cast<const NetPlugin12*>(e.structure));
  if (e.version == 11) return with(*static_cast<const NetPlugin11*>(e.structure));
  return with(*static_cast<const NetPlugin10*>(e.structure));
}
template <class With>
auto collective_of(const NetPluginEntry& e, With with) {
  if (e.version == 12) return with(*static_cast<const CollNetPlugin12*>(e.structure));
  if (e.version == 11) return with(*static_cast<const CollNetPlugin11*>(e.structure));
  return with(*static_cast<const CollNetPlugin10*>(e.structure));
}
template <class With>
auto either_of(const NetPluginEntry& e, With with) {
  return e.collective ? collective_of(e, with) : net_of(e, with);
}

struct Needed {
  bool there;
  const char* name;
};

// The first that is called and missing; null: none is.
const char* first_missing(std::initializer_list<Needed> all) {
  for (const Needed& each : all)
    if (!each.there) return each.name;
  return nullptr;
}

template <class Structure>
const char* missing_start(const Structure& s) {
  return first_missing({{s.name != nullptr, "name"},
                        {s.init != nullptr, "init"},
                        {s.devices != nullptr, "devices"},
                        {s.facts != nullptr, "getProperties"},
                        {s.listen != nullptr, "listen"}});
}

const char* missing_in_net(const NetPluginEntry& entry) {
  const char* start = net_of(entry, [](const auto& s) {
    const char* missing = missing_start(s);
    return missing == nullptr && s.connect == nullptr ? "connect" : missing;
  });
  if (start != nullptr) return start;
  const NetPluginCalls& c = net_calls(entry);
  return first_missing({{c.accept != nullptr, "accept"},
                        {c.register_memory != nullptr, "regMr"},
                        {c.deregister != nullptr, "deregMr"},
                        {c.send != nullptr, "isend"},
                        {c.receive != nullptr, "irecv"},
                        {c.test != nullptr, "test"},
                        {c.close_send != nullptr, "closeSend"},
                        {c.close_receive != nullptr, "closeRecv"},
                        {c.close_listener != nullptr, "closeListen"}});
}

const char* missing_in_collective(const NetPluginEntry& entry) {
  const char* start = collective_of(entry, [](const auto& s) { return missing_start(s); });
  if (start != nullptr) return start;
  const CollNetPluginCalls& c = collective_calls(entry);
  return first_missing({{c.connect != nullptr, "connect"},
                        {c.reduces != nullptr, "reduceSupport"},
                        {c.register_memory != nullptr, "regMr"},
                        {c.deregister != nullptr, "deregMr"},
                        {c.all_reduce != nullptr, "iallreduce"},
                        {c.test != nullptr, "test"},
                        {c.close_group != nullptr, "closeColl"},
                        {c.close_listener != nullptr, "closeListen"}});
}

// The newest version of a structure that the library has.
NetPluginEntry find_entry(const Library& library, const std::string& file, bool collective) {
  NetPluginEntry entry;
  entry.library = file;
  entry.collective = collective;
  for (const int version : kVersions) {
    const void* structure =
        library.find_data(format("nccl{}Plugin_v{}", collective ? "CollNet" : "Net", version));
    if (structure == nullptr) continue;
    entry.structure = structure;
    entry.version = version;
    entry.name = bounded(either_of(entry, [](const auto& s) { return s.name; }));
    break;
  }
  return entry;
}

Error no_entry(const Library& library, const std::string& file) {
  std::string others;
  for (int version = kFirstKnownVersion; version <= kLastKnownVersion; ++version) {
    if (library.find_data(format("ncclNetPlugin_v{}", version)) != nullptr)
      others += (others.empty() ? "" : ", ") + format("{}", version);
  }
  return {
      ErrorCode::unavailable,
      others.empty()
          ? format("{} is not a network plugin: it has no ncclNetPlugin_v12, v11 or v10", file)
          : format("{} implements version {} of the plugin interface; 12, 11 and 10 are supported",
                   file, others),
      "use a plugin built for NCCL 2.26 or later"};
}

Result<NetPluginLibrary> entries_of(const Library& library, const std::string& file) {
  NetPluginLibrary found;
  found.net = find_entry(library, file, false);
  if (found.net.version == 0) return no_entry(library, file);
  if (const char* missing = missing_in_net(found.net); missing != nullptr)
    return Error(ErrorCode::unavailable,
                 format("{}: ncclNetPlugin_v{} has no {}", file, found.net.version, missing));
  found.collective = find_entry(library, file, true);
  if (found.collective.version == 0) {
    found.why_no_collective = file + " has no ncclCollNetPlugin";
  } else if (const char* missing = missing_in_collective(found.collective); missing != nullptr) {
    found.why_no_collective =
        format("{}: ncclCollNetPlugin_v{} has no {}", file, found.collective.version, missing);
    found.collective.version = 0;
  }
  return found;
}

// What a version's getProperties fills in.
template <class Facts>
Facts facts_for(NetPluginCode (*)(int, Facts*)) {
  return Facts{};
}

// Up to version 10 a plugin is initialised once in a process.
std::set<const void*>& initialised() {
  static std::set<const void*> all;
  return all;
}

}  // namespace

Result<NetPluginLibrary> load_net_plugin(const std::string& name) {
  const bool path = name.find('/') != std::string::npos;
  const std::string file = path ? name : format("libnccl-net-{}.so", name);
  const Library library(file.c_str());
  if (!library)
    return Error(ErrorCode::unavailable, format("network plugin '{}': {}", name, library.error()),
                 "COLLCTL_NET_PLUGIN takes a path, or NAME of libnccl-net-NAME.so in the library "
                 "path");
  return entries_of(library, file);
}

const NetPluginCalls& net_calls(const NetPluginEntry& entry) {
  if (entry.version == 10) return static_cast<const NetPlugin10*>(entry.structure)->calls;
  if (entry.version == 11) return static_cast<const NetPlugin11*>(entry.structure)->calls;
  return static_cast<const NetPlugin12*>(entry.structure)->calls;
}

const CollNetPluginCalls& collective_calls(const NetPluginEntry& entry) {
  if (entry.version == 10) return static_cast<const CollNetPlugin10*>(entry.structure)->calls;
  if (entry.version == 11) return static_cast<const CollNetPlugin11*>(entry.structure)->calls;
  return static_cast<const CollNetPlugin12*>(entry.structure)->calls;
}

Error net_plugin_error(const NetPluginEntry& entry, const char* call, NetPluginCode code,
                       ErrorCode meaning) {
  std::string said;
  if (last_warning[0] != 0) said = format("; it said: {}", last_warning);
  last_warning[0] = 0;
  return {meaning, format("network plugin {} ({}): {} failed: {} ({}){}", entry.name, entry.library,
                          call, meaning_of(code), code, said)};
}

Result<std::unique_ptr<NetPluginSession>> NetPluginSession::start(const NetPluginEntry& entry,
                                                                  uint64_t communicator) {
  std::unique_ptr<NetPluginSession> session(new NetPluginSession(entry));
  const std::scoped_lock lock(setup_mutex());  // let go before a session that failed ends
  last_warning[0] = 0;
  COLL_TRY(session->init(communicator));
  COLL_TRY(session->find_devices());
  return session;
}

NetPluginSession::~NetPluginSession() {
  if (!started_ || entry_.version < 11) return;
  const std::scoped_lock lock(setup_mutex());
  const auto finalize = [&](const auto& s) {
    if constexpr (requires { s.finalize; }) {
      if (s.finalize == nullptr) return;
      if (const NetPluginCode code = s.finalize(context_); code != kNetPluginOk)
        COLL_INFO(net, "{}", net_plugin_error(entry_, "finalize", code, ErrorCode::lost).message);
    }
  };
  either_of(entry_, finalize);
}

Status NetPluginSession::init(uint64_t communicator) {
  if (entry_.version < 11 && initialised().count(entry_.structure) != 0) return {};
  const NetPluginCode code = either_of(entry_, [&](const auto& s) {
    if constexpr (requires { s.init(take_line); })
      return s.init(take_line);
    else if constexpr (requires { s.init(take_line, no_profile); })
      return s.init(take_line, no_profile);
    else if constexpr (requires { s.init(&context_, communicator, take_line); })
      return s.init(&context_, communicator, take_line);
    else
      return s.init(&context_, communicator, config(), take_line, no_profile);
  });
  if (code != kNetPluginOk) return net_plugin_error(entry_, "init", code, ErrorCode::unavailable);
  if (entry_.version < 11) initialised().insert(entry_.structure);
  started_ = true;
  return {};
}

Status NetPluginSession::find_devices() {
  int count = -1;
  const NetPluginCode code = either_of(entry_, [&](const auto& s) { return s.devices(&count); });
  if (code != kNetPluginOk)
    return net_plugin_error(entry_, "devices", code, ErrorCode::unavailable);
  if (count < 1 || count > kMostDevices)
    return Error(ErrorCode::unavailable,
                 format("network plugin {} ({}): it has {} devices; expected 1 to {}", entry_.name,
                        entry_.library, count, kMostDevices));
  for (int i = 0; i < count; ++i) {
    COLL_ASSIGN(NetPluginDevice found, device(i));
    devices_.push_back(std::move(found));
  }
  return {};
}

Result<NetPluginDevice> NetPluginSession::device(int index) {
  NetPluginDevice made;
  const NetPluginCode code = either_of(entry_, [&](const auto& s) {
    auto facts = facts_for(s.facts);
    const NetPluginCode got = s.facts(index, &facts);
    if (got != kNetPluginOk) return got;
    made.name = bounded(facts.name);
    made.pointers = facts.pointers;
    made.force_flush = facts.force_flush != 0;
    made.mbps = facts.mbps;
    made.most_message_bytes =
        entry_.collective ? facts.most_collective_bytes : facts.most_message_bytes;
    return got;
  });
  if (code != kNetPluginOk)
    return net_plugin_error(entry_, "getProperties", code, ErrorCode::unavailable);
  if (made.name.empty()) made.name = format("device {}", index);
  if ((made.pointers & kNetPluginHost) == 0)
    return Error(
        ErrorCode::unavailable,
        format("network plugin {} ({}): {} does not support host memory (pointer types {:#x})",
               entry_.name, entry_.library, made.name, made.pointers));
  if (made.most_message_bytes == 0)
    return Error(ErrorCode::unavailable,
                 format("network plugin {} ({}): {} sends at most 0 bytes at once", entry_.name,
                        entry_.library, made.name));
  return made;
}

Result<void*> NetPluginSession::listen(int index, uint8_t* handle) {
  const std::scoped_lock lock(setup_mutex());
  void* listener = nullptr;
  const NetPluginCode code = either_of(entry_, [&](const auto& s) {
    if constexpr (requires { s.finalize; })
      return s.listen(context_, index, handle, &listener);
    else
      return s.listen(index, handle, &listener);
  });
  if (code != kNetPluginOk) return net_plugin_error(entry_, "listen", code, ErrorCode::unavailable);
  if (listener == nullptr)
    return Error(ErrorCode::unavailable,
                 format("network plugin {} ({}): listen returned nothing to accept from",
                        entry_.name, entry_.library));
  return listener;
}

Result<void*> NetPluginSession::connect(int index, uint8_t* handle) {
  const std::scoped_lock lock(setup_mutex());
  void *connection = nullptr, *no_offload = nullptr;
  const NetPluginCode code = net_of(entry_, [&](const auto& s) {
    if constexpr (requires { s.finalize; })
      return s.connect(context_, index, handle, &connection, &no_offload);
    else
      return s.connect(index, config(), handle, &connection, &no_offload);
  });
  if (code != kNetPluginOk)
    return net_plugin_error(entry_, "connect", code, ErrorCode::unavailable);
  return connection;
}

Result<void*> NetPluginSession::accept(void* listener) {
  const std::scoped_lock lock(setup_mutex());
  void *connection = nullptr, *no_offload = nullptr;
  const NetPluginCode code = net_calls(entry_).accept(listener, &connection, &no_offload);
  if (code != kNetPluginOk) return net_plugin_error(entry_, "accept", code, ErrorCode::unavailable);
  return connection;
}

}  // namespace collctl::base::drivers
