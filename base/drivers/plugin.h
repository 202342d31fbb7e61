// Common parts of plugins by NCCL's interfaces, networks (transport/net/plugin) and tuners
// (runtime/tuner): how a library is named, what its codes mean, where its log lines go. Threads:
// any.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace collctl::base::drivers {

// Level (2 warning, 3 info, 5 trace), bits of subsystems, then printf's.
using PluginLog = void (*)(int level, unsigned long subsystems, const char* where, int line,
                           const char* text, ...);
enum class PluginKind : uint8_t { net, tuner };
// Makes the plugin's lines ours, after "NET/Plugin : " or "TUNER/Plugin : ".
PluginLog plugin_log(PluginKind kind);
// "; it said: ...": what this thread's calls have warned of last; empty: nothing. Forgets it.
std::string take_plugin_warning();

inline constexpr size_t kPluginMostName = 64;
// Cut, in one line; null: empty.
std::string plugin_name(const char* name);
const char* plugin_code_text(int code);  // of ncclResult_t

// A path or the name of a file (lib*.so) is itself; NAME is PREFIX-NAME.so.
std::string plugin_file(const char* prefix, const std::string& name);

// The plugin that NCCL itself would load: by its variable (`wanted`, also a list of names), else by
// the name that it looks for unasked. Loaded here as there, which runs the library's constructors,
// and never unloaded.
struct FoundPlugin {
  std::string path;     // empty: there is none
  int version = 0;      // the newest of its interface; 0: it has none of this kind
  std::string missing;  // why not, where one was wanted by name
};
FoundPlugin look_for_plugin(PluginKind kind, const std::string& wanted);

}  // namespace collctl::base::drivers
