#include "transport/net/plugin/library.h"

#include <mutex>
#include <set>

#include "base/drivers/library.h"
#include "base/drivers/plugin.h"
#include "base/format.h"
#include "base/log.h"
#include "transport/net/plugin/versions/table.h"

namespace collctl::transport {

using base::drivers::Library;

namespace {

constexpr int kMostPluginDevices = 256;
constexpr int kFirstKnownVersion = 2, kLastKnownVersion = 20;  // looked for to say what is there

// Plugins are used from one thread at a time while things are made; but some (FastSocket) wait in
// their accept until the peer has connected, and must not hold up this rank's own connects.
std::mutex& setup_mutex() {
  static std::mutex mutex;
  return mutex;
}
std::mutex& accept_mutex() {
  static std::mutex mutex;
  return mutex;
}

// There is no profiler for a plugin's own events.
NetPluginCode no_profile(void**, int, void*, int64_t, void*) {
  return kNetPluginOk;
}

NetPluginConfig* config() {
  static NetPluginConfig one{-1};  // no class of traffic; plugins may keep the address
  return &one;
}

// The newest version of a structure that the library has.
NetPluginEntry find_entry(const Library& library, const std::string& file, bool collective) {
  NetPluginEntry entry{.library = file, .calls = nullptr, .collective = collective, .name = ""};
  for (const NetPluginVersion& version : net_plugin_versions()) {
    const void* structure = library.find_data(
        format("nccl{}Plugin_v{}", collective ? "CollNet" : "Net", version.number));
    if (structure == nullptr) continue;
    if (collective)
      entry.calls = version.collective(structure);
    else
      entry.calls = version.net(structure);
    entry.name = base::drivers::plugin_name(entry.calls->name().c_str());
    break;
  }
  return entry;
}

std::string known_versions() {
  const auto all = net_plugin_versions();
  return format("{} to {}", all.back().number, all.front().number);
}

Error no_entry(const Library& library, const std::string& file) {
  std::string others;
  for (int version = kFirstKnownVersion; version <= kLastKnownVersion; ++version) {
    if (library.find_data(format("ncclNetPlugin_v{}", version)) != nullptr)
      others += (others.empty() ? "" : ", ") + format("{}", version);
  }
  const NetPluginVersion& oldest = net_plugin_versions().back();
  return {
      ErrorCode::unavailable,
      others.empty()
          ? format(
                "{} is not a network plugin: it has no ncclNetPlugin_v{}, nor one of versions {}",
                file, net_plugin_versions().front().number, known_versions())
          : format("{} implements version {} of the plugin interface; {} are supported", file,
                   others, known_versions()),
      format("use a plugin built for NCCL {} or later", oldest.nccl)};
}

Result<NetPluginLibrary> entries_of(const Library& library, const std::string& file) {
  NetPluginLibrary found;
  found.net = find_entry(library, file, false);
  if (found.net.calls == nullptr) return no_entry(library, file);
  if (const char* missing = found.net.calls->first_missing(); missing != nullptr)
    return Error(ErrorCode::unavailable, format("{}: ncclNetPlugin_v{} has no {}", file,
                                                found.net.calls->version(), missing));
  found.collective = find_entry(library, file, true);
  if (found.collective.calls == nullptr) {
    found.why_no_collective = file + " has no ncclCollNetPlugin";
  } else if (const char* missing = found.collective.calls->first_missing(); missing != nullptr) {
    found.why_no_collective = format("{}: ncclCollNetPlugin_v{} has no {}", file,
                                     found.collective.calls->version(), missing);
    found.collective.calls = nullptr;
  }
  return found;
}

// Up to version 10 a plugin is initialised once in a process.
std::set<const void*>& initialised() {
  static std::set<const void*> all;
  return all;
}

}  // namespace

Result<NetPluginLibrary> load_net_plugin(const std::string& name) {
  const std::string file = base::drivers::plugin_file("libnccl-net", name);
  const Library library(file.c_str());
  if (!library)
    return Error(ErrorCode::unavailable, format("network plugin '{}': {}", name, library.error()),
                 "COLLCTL_NET_PLUGIN takes a path, or NAME of libnccl-net-NAME.so in the library "
                 "path");
  return entries_of(library, file);
}

Error net_plugin_error(const NetPluginEntry& entry, const char* call, NetPluginCode code,
                       ErrorCode meaning) {
  return {meaning, format("network plugin {} ({}): {} failed: {} ({}){}", entry.name, entry.library,
                          call, base::drivers::plugin_code_text(code), code,
                          base::drivers::take_plugin_warning())};
}

Result<std::unique_ptr<NetPluginSession>> NetPluginSession::start(const NetPluginEntry& entry,
                                                                  uint64_t communicator) {
  std::unique_ptr<NetPluginSession> session(new NetPluginSession(entry));
  const std::scoped_lock lock(setup_mutex());  // let go before a session that failed ends
  (void)base::drivers::take_plugin_warning();  // of before
  COLL_TRY(session->init(communicator));
  COLL_TRY(session->find_devices());
  return session;
}

NetPluginSession::~NetPluginSession() {
  if (!started_) return;
  const std::scoped_lock lock(setup_mutex());
  if (const NetPluginCode code = entry_.calls->finalize(context_); code != kNetPluginOk)
    COLL_INFO(net, "{}", net_plugin_error(entry_, "finalize", code, ErrorCode::lost).message);
}

Status NetPluginSession::init(uint64_t communicator) {
  const bool once = !entry_.calls->for_each_communicator();
  if (once && initialised().count(entry_.calls->structure()) != 0) return {};
  const NetPluginCode code =
      entry_.calls->init(&context_, communicator, config(),
                         base::drivers::plugin_log(base::drivers::PluginKind::net), no_profile);
  if (code != kNetPluginOk) return net_plugin_error(entry_, "init", code, ErrorCode::unavailable);
  if (once) initialised().insert(entry_.calls->structure());
  started_ = true;
  return {};
}

Status NetPluginSession::find_devices() {
  int count = -1;
  const NetPluginCode code = entry_.calls->devices(&count);
  if (code != kNetPluginOk)
    return net_plugin_error(entry_, "devices", code, ErrorCode::unavailable);
  if (count < 1 || count > kMostPluginDevices)
    return Error(ErrorCode::unavailable,
                 format("network plugin {} ({}): it has {} devices; expected 1 to {}", entry_.name,
                        entry_.library, count, kMostPluginDevices));
  for (int i = 0; i < count; ++i) {
    COLL_ASSIGN(NetPluginDevice found, device(i));
    devices_.push_back(std::move(found));
  }
  return {};
}

Result<NetPluginDevice> NetPluginSession::device(int index) {
  NetPluginDevice made;
  const NetPluginCode code = entry_.calls->facts(index, &made);
  if (code != kNetPluginOk)
    return net_plugin_error(entry_, "getProperties", code, ErrorCode::unavailable);
  made.name = made.name.empty() ? format("device {}", index)
                                : base::drivers::plugin_name(made.name.c_str());
  if ((made.pointers & kNetPluginHost) == 0)
    return Error(
        ErrorCode::unavailable,
        format("network plugin {} ({}): {} does not support host memory (pointer types {:#x})",
               entry_.name, entry_.library, made.name, made.pointers));
  if (made.most_message_bytes == 0)
    return Error(ErrorCode::unavailable,
                 format("network plugin {} ({}): {} sends at most 0 bytes at once", entry_.name,
                        entry_.library, made.name));
  if (made.unpacks && made.pointers != kNetPluginHost) {
    COLL_INFO(net,
              "NET/{} : {} fills GPU memory by GPU code of its own (offload): host memory is used",
              entry_.name, made.name);
    made.pointers = kNetPluginHost;
  }
  return made;
}

Result<void*> NetPluginSession::listen(int index, uint8_t* handle) {
  const std::scoped_lock lock(setup_mutex());
  void* listener = nullptr;
  const NetPluginCode code = entry_.calls->listen(context_, index, handle, &listener);
  if (code != kNetPluginOk) return net_plugin_error(entry_, "listen", code, ErrorCode::unavailable);
  if (listener == nullptr)
    return Error(ErrorCode::unavailable,
                 format("network plugin {} ({}): listen returned nothing to accept from",
                        entry_.name, entry_.library));
  return listener;
}

Result<void*> NetPluginSession::connect(int index, uint8_t* handle) {
  const std::scoped_lock lock(setup_mutex());
  void* connection = nullptr;
  const NetPluginCode code =
      net_calls(entry_).connect(context_, index, config(), handle, &connection);
  if (code != kNetPluginOk)
    return net_plugin_error(entry_, "connect", code, ErrorCode::unavailable);
  return connection;
}

Result<void*> NetPluginSession::accept(void* listener) {
  const std::scoped_lock lock(accept_mutex());
  void* connection = nullptr;
  const NetPluginCode code = net_calls(entry_).accept(listener, &connection);
  if (code != kNetPluginOk) return net_plugin_error(entry_, "accept", code, ErrorCode::unavailable);
  return connection;
}

}  // namespace collctl::transport
